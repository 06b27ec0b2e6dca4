//! The open circuits of the built-in router and of other routers.

use crate::{fabric::CircuitInfo, http::state::AppState};

/// Passes all open circuits to `each`, in no particular order.
///
/// # Errors
/// The first error of `each`.
pub(crate) fn each<E>(
    state: &AppState,
    mut each: impl FnMut(CircuitInfo) -> Result<(), E>,
) -> Result<(), E> {
    state.router.each_circuit(&mut each)?;
    state.control.each_circuit(each)
}

/// The open circuit with an id.
pub(crate) fn find(state: &AppState, id: &str) -> Option<CircuitInfo> {
    state
        .router
        .circuit(id)
        .or_else(|| state.control.circuit(id))
}

/// Ends a circuit. Returns whether it existed.
pub(crate) fn close(state: &AppState, id: &str) -> bool {
    state.router.close_circuit(id) || state.control.close_circuit(id)
}
