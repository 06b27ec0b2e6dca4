//! Errors that several parts of the store return.

use std::any::Any;

use model::error::Error;

/// Seconds in `retry-after` when a queue is full.
pub(crate) const RETRY_AFTER: u32 = 1;

/// The error for a store that was closed.
pub(crate) fn closed() -> Error {
    Error::Storage("the store is closed".into())
}

/// The error for a panic; `what` panicked.
pub(crate) fn panicked(what: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    Error::Internal(format!("{what} panicked: {}", text.unwrap_or("no message")))
}
