//! Waiting for room in the queue of a circuit.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{sync::Notify, time::timeout};

use super::{
    budget::{Account, Hold},
    circuit::CircuitEnd,
    router_core::RouterCore,
    send_queue::{Gone, Reservation},
};

/// After waiting this long for room, a task may close a stalled channel.
const STALL_CHECK: Duration = Duration::from_secs(2);

/// Waits for room in a queue for a message whose sender has this account. If the memory budget is
/// short, closes a channel whose peer does not read.
pub(crate) async fn reserve<'e>(
    core: &RouterCore,
    end: &'e CircuitEnd,
    bytes: usize,
    sender: &'e Account,
    waiter: &Arc<Notify>,
) -> Result<Reservation<'e>, Gone> {
    waited_for(core, end.outbox.reserve(end.queue, bytes, sender, waiter)).await
}

/// Waits until an account has room for a message that has begun to arrive.
pub(crate) async fn hold<'a>(
    core: &RouterCore,
    account: &'a Account,
    bytes: usize,
    waiter: &Arc<Notify>,
) -> Hold<'a> {
    waited_for(core, account.hold(bytes, waiter)).await
}

async fn waited_for<T>(core: &RouterCore, room: impl Future<Output = T>) -> T {
    let mut room = pin!(room);
    loop {
        match timeout(STALL_CHECK, &mut room).await {
            Ok(room) => return room,
            Err(_) if core.budget.is_short() => core.cut_off(),
            Err(_) => {}
        }
    }
}
