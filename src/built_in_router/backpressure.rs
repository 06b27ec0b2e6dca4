//! Waiting for room in the queue of a circuit.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{sync::Notify, time::timeout};

use super::{
    circuit::CircuitEnd,
    core::RouterCore,
    send_queue::{Gone, Reservation},
};

/// After waiting this long for room, a task may close a stalled channel.
const STALL_CHECK: Duration = Duration::from_secs(2);

/// Waits for room in a queue. If the memory budget is used up, closes a channel whose peer does not read.
pub(crate) async fn reserve<'e>(
    core: &RouterCore,
    end: &'e CircuitEnd,
    bytes: usize,
    waiter: &Arc<Notify>,
) -> Result<Reservation<'e>, Gone> {
    let mut room = pin!(end.channel.outbox.reserve(end.queue, bytes, waiter));
    loop {
        match timeout(STALL_CHECK, &mut room).await {
            Ok(room) => return room,
            Err(_) if core.budget.free() < bytes => core.close_slowest_channel(),
            Err(_) => {}
        }
    }
}
