//! The queries that entities may ask.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::kind::{AnyRecord, Epoch, Kind};
use crate::{clock::Timestamp, error::Result};

/// The queries of a transaction. Read and write transactions implement it.
pub trait Lookup {
    /// The record of a kind with an id, as a `Record<E>` of that kind.
    ///
    /// # Errors
    /// It is damaged, or the file cannot be read.
    fn record(&self, kind: Kind, id: &str) -> Result<Option<AnyRecord>>;

    /// The ids of a kind's records with this value of the indexed field or reference `field`, in
    /// ascending order.
    ///
    /// # Errors
    /// The file cannot be read.
    fn ids(&self, kind: Kind, field: &'static str, value: &str) -> Result<Vec<String>>;

    /// Whether a kind has a record with this value of the indexed field or reference `field`.
    ///
    /// # Errors
    /// The file cannot be read.
    fn any(&self, kind: Kind, field: &'static str, value: &str) -> Result<bool>;

    /// The epoch of the tombstone for the records of a kind with this value in one of
    /// [`Entity::ENDS_BY`](super::Entity::ENDS_BY); 0 if there is none.
    ///
    /// # Errors
    /// The file cannot be read.
    fn ended_before(&self, kind: Kind, field: &'static str, value: &str) -> Result<Epoch>;

    /// Whether there is any tombstone whose records are not all removed yet.
    ///
    /// # Errors
    /// The file cannot be read.
    fn any_tombstone(&self) -> Result<bool>;

    /// The connection of a router, while it has one.
    fn router_info(&self, router: &str) -> Option<RouterInfo>;

    /// Whether an identity has a channel to a router.
    fn is_connected(&self, identity: &str) -> bool;

    /// The cost that open circuits and failed dials add to a terminator.
    fn dynamic_cost(&self, terminator: &str) -> u16;

    /// The time of the transaction.
    fn now(&self) -> Timestamp;
}

/// What a connected router reports about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouterInfo {
    pub hostname: String,
    /// Protocol to address: `tls` to `tls://host:port`.
    pub protocols: BTreeMap<String, String>,
    pub sync_status: String,
    pub version: VersionInfo,
    /// When it connected; `None` for the built-in router.
    pub since: Option<Timestamp>,
    /// The addresses at which other routers reach it, each with its protocol.
    pub listeners: Vec<(String, String)>,
}

/// The version that a router reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionInfo {
    pub arch: String,
    pub build_date: String,
    pub os: String,
    pub revision: String,
    pub version: String,
}

impl VersionInfo {
    /// The version of this controller as routers and clients compare it with versions of OpenZiti.
    /// It is that of a build for development, which takes part in everything that a later version
    /// has (`docs/clients.md`). It has no suffix: programs that know suffixes take one for a
    /// release before 0.0.0, and others do not read it.
    pub const COMPARED: &str = "v0.0.0";
    /// The version of the built-in router as remote routers compare it. From 1.6.6 on, or for a
    /// build for development, they group the connections of a link, which the built-in router does
    /// not.
    pub const OF_LINKS: &str = "v1.1.15";

    /// The version in the answer to a hello: version, revision, build date, system and
    /// architecture. The revision has the version of Overkeep.
    pub fn of_hello() -> String {
        let revision = concat!("overkeep-", env!("CARGO_PKG_VERSION"));
        format!(
            "{}|{revision}||{}|{}",
            Self::COMPARED,
            std::env::consts::OS,
            std::env::consts::ARCH
        )
    }
}

impl<F: Lookup + ?Sized> Lookup for &F {
    fn record(&self, kind: Kind, id: &str) -> Result<Option<AnyRecord>> {
        (**self).record(kind, id)
    }
    fn ids(&self, kind: Kind, field: &'static str, value: &str) -> Result<Vec<String>> {
        (**self).ids(kind, field, value)
    }
    fn any(&self, kind: Kind, field: &'static str, value: &str) -> Result<bool> {
        (**self).any(kind, field, value)
    }
    fn ended_before(&self, kind: Kind, field: &'static str, value: &str) -> Result<Epoch> {
        (**self).ended_before(kind, field, value)
    }
    fn any_tombstone(&self) -> Result<bool> {
        (**self).any_tombstone()
    }
    fn router_info(&self, router: &str) -> Option<RouterInfo> {
        (**self).router_info(router)
    }
    fn is_connected(&self, identity: &str) -> bool {
        (**self).is_connected(identity)
    }
    fn dynamic_cost(&self, terminator: &str) -> u16 {
        (**self).dynamic_cost(terminator)
    }
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}
