//! What answers are made with. Put together in `controller.rs`.

use std::{sync::Arc, time::Duration};

use super::common::texts::Texts;
use super::descriptions::Descriptions;
use crate::{
    access::Access,
    authentication::{Codes, Passwords, Sessions, Tokens},
    change::Changes,
    clock::Clock,
    maintenance::Maintenance,
    network::Network,
    pki::Holdings,
    posture::Posture,
    store::Store,
};

/// Every service a function in a route table may use.
pub struct Services {
    pub store: Store,
    pub changes: Changes,
    pub access: Access,
    pub posture: Posture,
    pub holdings: Arc<Holdings>,
    pub network: Network,
    pub maintenance: Maintenance,
    pub descriptions: Descriptions,
    pub sessions: Sessions,
    pub passwords: Passwords,
    pub codes: Codes,
    pub tokens: Tokens,
    pub clock: Clock,
    /// New at every start; clients read the version again when it changes.
    pub instance: String,
    /// `host:port` under which clients reach this controller, the one they are sent to first.
    pub address: String,
    /// That one and all others.
    pub addresses: Vec<String>,
    /// When this process started.
    pub started: crate::clock::Timestamp,
    pub limits: Limits,
    /// Services as text, for lists.
    pub texts: Texts,
}

/// Bounds on requests.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a body.
    pub body: usize,
    /// Time from the request's head to its answer.
    pub time: Duration,
    /// Origins whose pages may call; `*` for all.
    pub origins: Vec<String>,
}
