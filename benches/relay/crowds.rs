//! Many clients at once: circuits whose hosts do not read, and clients that all come back after a
//! restart.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{FutureExt, future::join_all};
use tokio::time::{sleep, timeout};

use super::{
    controller::BY_CERTIFICATE,
    parts::ends,
    percentile, row,
    sdk::{Conn, Sdk},
    stage::Stage,
    wire::{Manner, Wire},
};

const STALLED: usize = 1000;
const CLIENTS: usize = 10_000;
const LOGINS: usize = 50;
const MIB: f64 = 1024.0;
/// The bytes of messages that the router may keep in memory, in MiB (`router.max-total-mib`).
const BOUND: f64 = 64.0;
/// Nothing more is taken when nothing was taken for this long.
const QUIET: Duration = Duration::from_secs(3);
const LONGEST: Duration = Duration::from_secs(90);
/// The message that stalled circuits are filled with.
const CHUNK: usize = 32 << 10;
/// How many channels one client after the other opens, as a floor.
const ALONE: usize = 50;

/// The most memory that a process has occupied, in KiB.
fn peak(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// The memory of circuits that are filled until nothing more is taken, as their hosts do not read.
pub fn stalled(stage: &Stage) {
    stage.runtime.block_on(async {
        let (dialed, accepted): (Vec<_>, Vec<_>) = ends(stage, STALLED).await.into_iter().unzip();
        let before = stage.controller.memory();
        accepted.iter().for_each(|conn| conn.sdk.pause());
        let sent = Arc::<AtomicUsize>::default();
        let filling: Vec<_> = dialed
            .into_iter()
            .map(|conn| tokio::spawn(fill(conn, sent.clone())))
            .collect();
        // Until nothing more is taken. The system's buffers fill up first.
        let (start, mut counted, mut last) = (Instant::now(), 0.0_f64, (0, Instant::now()));
        while last.1.elapsed() < QUIET && start.elapsed() < LONGEST {
            sleep(Duration::from_millis(200)).await;
            counted = counted.max(stage.queued_bytes() / MIB / MIB);
            if sent.load(Ordering::Relaxed) != last.0 {
                last = (sent.load(Ordering::Relaxed), Instant::now());
            }
        }
        let most = (peak(stage.controller.id()) - before) / MIB;
        row(
            "1,000 stalled circuits, MiB that are counted",
            BOUND,
            counted,
            Some(("at most 64", counted <= BOUND)),
        );
        row(
            "the same, MiB of the process; what is counted as floor",
            counted,
            most,
            None,
        );
        row(
            "the same, MiB that were sent until nothing was taken",
            BOUND,
            (last.0 * CHUNK) as f64 / MIB / MIB,
            None,
        );
        filling.iter().for_each(tokio::task::JoinHandle::abort);
        accepted.iter().for_each(|conn| conn.sdk.resume());
    });
}

/// Sends on a connection until it ends: a router whose memory is used up closes channels that are
/// not read.
async fn fill(mut conn: Conn, sent: Arc<AtomicUsize>) {
    while conn.next().now_or_never().is_none() {
        conn.send(&[0; CHUNK]).await;
        sent.fetch_add(1, Ordering::Relaxed);
    }
}

/// Log-ins, one after the other, until `is_done`. Returns the time of each in milliseconds.
fn log_ins(stage: &Stage, manner: &Manner, is_done: impl Fn(usize) -> bool) -> Vec<f64> {
    let mut times = Vec::new();
    while !is_done(times.len()) {
        let start = Instant::now();
        assert_eq!(
            Wire::open(stage.controller.at, manner)
                .unwrap()
                .ask("POST", BY_CERTIFICATE, "", "")
                .unwrap()
                .status,
            200
        );
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times
}

/// Opens a channel; tries again as SDKs do if the connection is closed before. Returns how often it
/// tried.
async fn come_back(stage: &Stage) -> (Sdk, usize) {
    for tries in 1.. {
        if let Ok(Some(sdk)) =
            timeout(Duration::from_secs(20), stage.try_channel(&stage.dialer)).await
        {
            return (sdk, tries);
        }
        sleep(Duration::from_millis(500 << tries.min(4))).await;
    }
    unreachable!("it does not give up")
}

/// 10,000 clients that connect at once, and log-ins over REST meanwhile. The controller has just
/// started.
pub fn stampede(stage: &Stage) {
    let (_, manner) = stage.controller.enrolled("beside the stampede");
    let quiet = log_ins(stage, &manner, |count| count == LOGINS);
    let start = Instant::now();
    for _ in 0..ALONE {
        drop(stage.runtime.block_on(stage.channel(&stage.dialer)));
    }
    let alone = start.elapsed().as_secs_f64() / ALONE as f64;
    sleep_until_quiet(stage);
    let (before, is_over) = (stage.controller.memory(), AtomicBool::new(false));
    let (channels, busy, seconds) = std::thread::scope(|scope| {
        let beside = scope.spawn(|| log_ins(stage, &manner, |_| is_over.load(Ordering::Relaxed)));
        let start = Instant::now();
        let channels = stage
            .runtime
            .block_on(join_all((0..CLIENTS).map(|_| come_back(stage))));
        let seconds = start.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        (channels, beside.join().unwrap(), seconds)
    });
    let tries: usize = channels.iter().map(|(_, tries)| tries).sum();
    row(
        "channels per second, 10,000 at once; one alone as floor",
        1.0 / alone,
        CLIENTS as f64 / seconds,
        None,
    );
    row(
        "connections that they needed",
        CLIENTS as f64,
        tries as f64,
        None,
    );
    for share in [0.5, 0.99] {
        let what = format!("a log-in meanwhile, p{:.0} ms", share * 100.0);
        row(
            &what,
            percentile(quiet.clone(), share),
            percentile(busy.clone(), share),
            None,
        );
    }
    row(
        "log-ins per second meanwhile",
        1e3 / percentile(quiet, 0.5),
        busy.len() as f64 / seconds,
        None,
    );
    let memory = |kib: f64| (kib - before) / CLIENTS as f64;
    let (open, most) = (
        memory(stage.controller.memory()),
        memory(peak(stage.controller.id())),
    );
    row(
        "memory of each at the peak, KiB; afterwards as floor",
        open,
        most,
        None,
    );
}

/// Waits until the channels of earlier work are closed.
fn sleep_until_quiet(stage: &Stage) {
    stage
        .runtime
        .block_on(async { sleep(Duration::from_secs(2)).await });
}
