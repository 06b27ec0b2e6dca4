//! The routers elsewhere, as the built-in router uses them.

use std::{pin::Pin, time::Duration};

use super::{message::Failure, select::Weight};
use crate::{
    entity::{ApiSession, Id, Record, Session},
    pki::Certificate,
};

/// A dial of an SDK at the built-in router to a host at another router.
pub(crate) struct DialElsewhere {
    /// The id of the circuit.
    pub circuit: String,
    pub session: Record<Session>,
    pub api_session: Id<ApiSession>,
    /// The instance id; empty for none.
    pub instance: String,
    /// The terminator that a sticky service should keep.
    pub sticky: Option<Vec<u8>>,
    /// What is passed on to the host, by the header keys of SDK channels.
    pub peer_data: Vec<(u32, Vec<u8>)>,
}

/// What the host passes on to the client, and the terminator of a sticky service.
pub(crate) type Answer = Vec<(u32, Vec<u8>)>;

/// The routers elsewhere.
pub(crate) trait Elsewhere: Send + Sync {
    /// Whether a certificate is the one of an enrolled router that may connect.
    fn is_router(&self, router: &str, leaf: &Certificate) -> bool;

    /// Whether a router is connected.
    fn has_routers(&self) -> bool;

    /// The terminators of a service at other routers that can be reached, with this instance id.
    fn hosts(&self, service: &str, instance: &str) -> Vec<(String, Weight)>;

    /// Routes a circuit to a host at another router.
    fn dial(&self, dial: DialElsewhere) -> Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send + '_>>;

    /// Takes in that the end of a circuit at this router has ended.
    fn circuit_ended(&self, circuit: &str, is_of_host: bool);

    /// Takes in that a link was lost.
    fn link_lost(&self, link: &str, iteration: u32);

    /// Takes in the latency of a link.
    fn link_measured(&self, link: &str, latency: Duration);
}
