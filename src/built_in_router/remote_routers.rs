//! The interface through which the built-in router uses remote routers, that is, in other
//! processes.

use std::{pin::Pin, time::Duration};

use pki::Certificate;

use crate::{
    entity::{ApiSession, Id, Record, Session},
    fabric::{RequestFailure, Weight},
};

/// A dial of an SDK at the built-in router to a host at another router.
pub(crate) struct RemoteDial {
    /// The id of the circuit.
    pub circuit: String,
    pub session: Record<Session>,
    pub api_session: Id<ApiSession>,
    /// The instance id; empty for none.
    pub instance: String,
    /// The terminator to try first.
    pub terminator: Option<String>,
    /// The terminator that a sticky service should keep.
    pub sticky: Option<Vec<u8>>,
    /// What is passed on to the host, by the header keys of SDK channels.
    pub peer_data: Vec<(u32, Vec<u8>)>,
}

/// What the host passes on to the client, and the terminator of a sticky service.
pub(crate) type DialReply = Vec<(u32, Vec<u8>)>;

/// The remote routers.
pub(crate) trait RemoteRouters: Send + Sync {
    /// Whether a certificate belongs to an enrolled router that may connect.
    fn is_router(&self, router: &str, leaf: &Certificate) -> bool;

    /// Whether any remote router is connected.
    fn has_routers(&self) -> bool;

    /// The reachable terminators of a service at other routers with this instance id, and their
    /// weights.
    fn hosts(&self, service: &str, instance: &str) -> Vec<(String, Weight)>;

    /// Routes a circuit to a host at another router.
    fn dial(
        &self,
        dial: RemoteDial,
    ) -> Pin<Box<dyn Future<Output = Result<DialReply, RequestFailure>> + Send + '_>>;

    /// Reports that the end of a circuit at this router has ended: the host's end if `is_of_host`,
    /// otherwise the client's end.
    fn circuit_ended(&self, circuit: &str, is_of_host: bool);

    /// Reports that a router has opened a link here.
    fn link_opened(&self, link: &str, router: &str);

    /// Reports the loss of a link.
    fn link_lost(&self, link: &str, iteration: u32);

    /// Reports the measured latency of a link.
    fn link_measured(&self, link: &str, latency: Duration);
}
