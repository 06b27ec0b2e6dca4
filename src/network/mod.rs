//! The data plane: the edge router inside the controller. SDKs connect to it, host and dial services, and their data is relayed here.
//!
//! Not here: sockets and TLS (`listener/`), who may use what (`access/`, `posture/`), how messages look as bytes (`frame/`), which routers
//! and identities are connected (`online.rs`, which is told from here). Start reading at [`Router`].
//! Invariant: a circuit that stands is one that its identity may have now.

mod info;

use std::sync::Arc;

pub use info::{ChannelInfo, CircuitInfo, EndInfo};

/// The router of this process, or none where it is disabled. Cheap to clone.
#[derive(Clone, Default)]
pub struct Router(Option<Arc<Inner>>);

/// What a router that runs consists of.
struct Inner {
    /// The id of its record.
    id: String,
}

impl Router {
    /// The id of the edge router record that stands for it; none where it is disabled.
    pub fn id(&self) -> Option<&str> {
        self.0.as_deref().map(|inner| inner.id.as_str())
    }

    /// All open circuits, the oldest first.
    pub fn circuits(&self) -> Vec<CircuitInfo> {
        Vec::new()
    }

    /// An open circuit.
    pub fn circuit(&self, _id: &str) -> Option<CircuitInfo> {
        None
    }

    /// Ends a circuit at both of its ends. Answers whether there was one.
    pub fn close_circuit(&self, _id: &str) -> bool {
        false
    }

    /// All open channels, the oldest first.
    pub fn channels(&self) -> Vec<ChannelInfo> {
        Vec::new()
    }
}
