//! Periodic work of the router, and its shutdown.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

use super::{channel::Channel, registry::Affected, router_core::RouterCore};
use crate::network::RequestFailure;

/// The interval of rate measurements.
const MEASURE: Duration = Duration::from_secs(10);
/// API sessions with a channel are marked active every this many intervals.
const ACTIVE: u32 = 3;
/// How long a stop waits for circuits over remote routers. Their other ends do not stop with this
/// controller, and neither their routers nor the network in between tell whether they have anything
/// left to deliver: an idle one would hold every stop for `drain-timeout`. With the time for hosts
/// a stop with routers takes less than two seconds.
const OVER_ROUTERS: Duration = Duration::from_millis(500);
/// How long channels may take to send what is queued, then to send the messages that were begun,
/// and clients then to read and close.
const FLUSH: Duration = Duration::from_secs(1);

/// Runs the periodic work as long as the router runs.
pub(crate) async fn run(core: Arc<RouterCore>) {
    let mut ticks = interval(MEASURE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for round in 0_u32.. {
        ticks.tick().await;
        let open = core.registry.everything();
        for circuit in &open.circuits {
            circuit.traffic.measure(MEASURE.as_secs());
        }
        for transit in &core.transits.all() {
            transit.traffic.measure(MEASURE.as_secs());
        }
        if round % ACTIVE == 0 {
            keep_active(&core, &open);
        }
    }
}

/// Marks API sessions with an open channel as active, even without REST requests.
pub(crate) fn keep_active(core: &RouterCore, open: &Affected) {
    for channel in &open.channels {
        core.network
            .authorizer
            .sessions
            .mark_active(&channel.login.api_session)
    }
}

/// Shuts down: circuits have `drain-timeout` to end by themselves, those over other routers
/// [`OVER_ROUTERS`], then queued messages have [`FLUSH`] to be written. What is left is dropped,
/// except for messages that were begun: libziti 0.29.3 keeps a part of a message when its channel
/// ends, and takes the answer to its next hello for the rest of it. Then clients have [`FLUSH`] to
/// read and to close. Go SDKs that host sometimes close only after five seconds: they wait until
/// their last message is written to the channel that has ended.
///
/// If there are hosts, requests are answered for `refresh` after everything was written: libziti
/// 0.29.3 reads its API session again when its channel ends. If that fails, it forgets the session,
/// and the Bind that it repeats in the meantime fails for good.
pub(crate) async fn drain(core: &RouterCore) {
    core.is_stopping.store(true, Ordering::Release);
    let has_hosts = !core.registry.everything().bindings.is_empty();
    let began = Instant::now();
    wait(core, began + OVER_ROUTERS, || {
        core.registry.count_circuits() == 0
    })
    .await;
    wait(
        core,
        began + core.context.config.drain_timeout.duration(),
        || core.registry.count_circuits_here() == 0,
    )
    .await;
    let open = core.registry.everything();
    let failure = RequestFailure::busy("the router is stopping");
    for circuit in &open.circuits {
        core.fail_circuit(circuit, &failure);
    }
    // Hosts get no message about the end of a binding: hosts learn of it from the end of their
    // channel. A host that is told about its binding alone binds again at once, and libziti 0.29
    // crashes when the channel ends during that.
    open.channels
        .iter()
        .for_each(|channel| channel.outbox.drain());
    let is_written = |channel: &Channel| channel.is_written.load(Ordering::Acquire);
    let are_all_written = || core.registry.all_channels(is_written);
    wait(core, Instant::now() + FLUSH, are_all_written).await;
    for channel in &core.registry.everything().channels {
        channel.outbox.drop_queued();
    }
    wait(core, Instant::now() + FLUSH, are_all_written).await;
    let written = Instant::now();
    // A channel that was written and closed is gone. One that could not be written is not waited
    // for.
    wait(core, written + FLUSH, || {
        core.registry.all_channels(|channel| !is_written(channel))
    })
    .await;
    for channel in &core.registry.everything().channels {
        core.end_channel(channel, &failure);
    }
    if has_hosts {
        sleep_until(written + core.times.refresh).await;
    }
}

/// Waits until `is_done`, at most until `end`.
async fn wait(core: &RouterCore, end: Instant, is_done: impl Fn() -> bool) {
    while !is_done() && Instant::now() < end {
        // Something that ends between the check and the wait is seen by the next check.
        let next = end.min(Instant::now() + Duration::from_millis(50));
        drop(timeout(next - Instant::now(), core.ended.notified()).await);
    }
    sleep(Duration::ZERO).await;
}
