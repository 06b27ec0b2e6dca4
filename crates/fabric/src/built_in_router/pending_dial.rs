//! A Dial that a host has not answered yet.

use std::sync::Arc;

use policy::hosting::DialFault;
use tokio::sync::oneshot;

use super::{binding::Binding, circuit::Circuit, fair_queues::QueueId};
use crate::network::{PassedOn, RequestFailure};

/// The maximum length, in characters, of a host's error text that is passed on.
const MAX_TEXT: usize = 1024;

/// A Dial that waits for its answer.
pub(crate) struct PendingDial {
    pub(super) circuit: Arc<Circuit>,
    pub(super) binding: Arc<Binding>,
    /// The connection id that the router assigned; `None` if the host assigns it.
    pub(super) connection: Option<u32>,
    /// The queue for data to the host.
    pub(super) queue: QueueId,
    pub(super) needs_key: bool,
    pub(super) is_sticky: bool,
    pub(super) has_sdk_flow_control: bool,
    pub(super) done: oneshot::Sender<Result<PassedOn, RequestFailure>>,
}

impl PendingDial {
    pub(crate) fn is_for(&self, circuit: &Arc<Circuit>) -> bool {
        Arc::ptr_eq(&self.circuit, circuit)
    }

    /// Reports to the waiting task that the host refused, with the host's text.
    pub(crate) fn fail(self, text: &str) {
        let text: String = text.chars().take(MAX_TEXT).collect();
        let text = if text.is_empty() {
            "the host refused the dial".into()
        } else {
            text
        };
        drop(self.done.send(Err(
            RequestFailure::internal(text).because(DialFault::Refused),
        )));
    }
}
