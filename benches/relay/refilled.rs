//! One identity whose hosts do not read and are filled again and again, and what somebody else
//! waits meanwhile.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures_util::{FutureExt, future::join_all};
use tokio::time::{sleep, timeout};

use super::{
    parts::echoes,
    percentile, row,
    sdk::{Conn, Event},
    stage::{Stage, User},
};

/// The channels that are filled, each with a circuit of its own.
const FILLED: usize = 20;
/// The message that they are filled with: nearly the longest that the router takes
/// (`router.max-message-mib`).
const LONG: usize = (16 << 20) - (64 << 10);
/// The bytes of messages that the router may keep in memory, in MiB (`router.max-total-mib`).
const BOUND: f64 = 64.0;
const MIB: f64 = 1_048_576.0;
/// The message of the somebody else.
const ECHOED: usize = 32 << 10;
/// A circuit that takes nothing for this long is closed and opened again.
const STALLED: Duration = Duration::from_secs(3);
/// How long is measured: quiet, before and after, and beside them.
const QUIET: Duration = Duration::from_secs(10);
const BESIDE: Duration = Duration::from_secs(30);

/// The echo of somebody else beside circuits of one identity that are filled.
pub fn refilled(stage: &Stage) {
    let other = stage.other("filled", FILLED);
    stage.runtime.block_on(async {
        let (mut near, mut far) = stage.circuit(&stage.channel(&stage.dialer).await, &mut stage.hosting().await).await;
        tokio::spawn(async move {
            while let Event::Data(message) = far.next().await {
                far.send(&message).await;
            }
        });
        let mut quiet = echoed(&mut near, QUIET).await;
        let taken = AtomicUsize::new(0);
        let measured = async {
            // Until the first ones are full.
            sleep(STALLED).await;
            let before = stage.queued_bytes();
            let times = echoed(&mut near, BESIDE).await;
            (times, before.max(stage.queued_bytes()))
        };
        let (beside, queued) = tokio::select! {
            beside = measured => beside,
            _ = join_all((0..FILLED).map(|service| refill(stage, &other, service, &taken))) => unreachable!("it does not end"),
        };
        sleep(2 * STALLED).await;
        quiet.extend(echoed(&mut near, QUIET).await);
        let ratio = percentile(beside.clone(), 0.99) / percentile(quiet.clone(), 0.99);
        for share in [0.5, 0.99] {
            let goal = (share > 0.9).then_some(("at most 3", ratio <= 3.0));
            let what = format!("32 kB to and fro beside refilled hosts, p{:.0} ms", share * 100.0);
            row(&what, percentile(quiet.clone(), share), percentile(beside.clone(), share), goal);
        }
        row("the same, the longest, ms", percentile(quiet, 1.0), percentile(beside, 1.0), None);
        row("the same, MiB that were queued; router.max-total-mib as floor", BOUND, queued / MIB, None);
        row("the same, messages of 16 MiB that were taken", FILLED as f64, taken.load(Ordering::Relaxed) as f64, None);
    });
}

async fn echoed(connection: &mut Conn, during: Duration) -> Vec<f64> {
    let start = Instant::now();
    echoes(connection, &[7; ECHOED], |_| start.elapsed() > during).await
}

/// Opens a circuit whose host does not read, fills it until it takes nothing more, and begins
/// again, for ever.
async fn refill(stage: &Stage, user: &User, service: usize, taken: &AtomicUsize) {
    let message = vec![7; LONG];
    loop {
        let Some((mut dialed, accepted)) = stage.circuit_of(user, service).await else {
            sleep(STALLED / 30).await;
            continue;
        };
        accepted.sdk.pause();
        while dialed.next().now_or_never().is_none()
            && timeout(STALLED, dialed.send(&message)).await.is_ok()
        {
            taken.fetch_add(1, Ordering::Relaxed);
        }
    }
}
