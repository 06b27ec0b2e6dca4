//! What is done from time to time, and at the end.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::{core::Core, message::Failure, registry::Affected as Members};

/// Rates are measured over so long.
const MEASURE: Duration = Duration::from_secs(10);
/// API sessions with a channel count as active so often.
const ACTIVE: u32 = 3;
/// Failures of hosts are forgiven so often.
const FORGIVE: u32 = 6;
/// How long channels have to send what is left.
const FLUSH: Duration = Duration::from_secs(1);

/// Works for as long as the router runs.
pub async fn run(core: Arc<Core>) {
    let mut ticks = interval(MEASURE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for round in 0_u32.. {
        ticks.tick().await;
        let open = core.registry.everything();
        open.circuits.iter().for_each(|circuit| circuit.measure(MEASURE.as_secs()));
        if round % ACTIVE == 0 {
            keep_active(&core, &open);
        }
        if round % FORGIVE == 0 {
            open.bindings.iter().filter(|binding| binding.forgive()).for_each(|binding| core.show_cost(binding));
        }
    }
}

/// Whoever has a channel open is not idle, whether or not it asks anything over REST.
pub fn keep_active(core: &Core, open: &Members) {
    open.channels.iter().for_each(|channel| core.parts.sessions.touch(&channel.api_session));
}

/// Ends everything: circuits have some time to end by themselves, then what is queued has some to be written.
pub async fn drain(core: &Core) {
    core.is_stopping.store(true, Ordering::Release);
    let end = Instant::now() + core.parts.config.drain_timeout.duration();
    wait(core, end, || core.registry.count_circuits() == 0).await;
    let open = core.registry.everything();
    let failure = Failure::busy("the router is stopping");
    open.circuits.iter().for_each(|circuit| core.fail_circuit(circuit, &failure));
    // Hosts are told by the end of their channel. A host that is told of its bind alone binds again here at once, and libziti 0.29 crashes
    // when the channel ends while it does.
    open.channels.iter().for_each(|channel| channel.outbox.drain());
    wait(core, Instant::now() + FLUSH, || core.registry.count_channels() == 0).await;
    core.registry.everything().channels.iter().for_each(|channel| core.end_channel(channel, &failure));
}

/// Waits until something is so, or for the end.
async fn wait(core: &Core, end: Instant, is_so: impl Fn() -> bool) {
    while !is_so() && Instant::now() < end {
        // What ends between the question and the wait is seen at the next look.
        let next = end.min(Instant::now() + Duration::from_millis(50));
        drop(timeout(next - Instant::now(), core.ended.notified()).await);
    }
    sleep(Duration::ZERO).await;
}
