//! The records that a question is about.

use model::{
    clock::Timestamp,
    entity::{ApiSession, Entity, Identity, Record, Service},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    access::{Access, Right},
    hosting::Hosting,
};

/// The greatest number of suggestions and of entries in a list.
pub(super) const MAX_LISTED: usize = 10;

/// A question whose records were found.
pub(super) struct Case<'q> {
    pub(super) identity: Record<Identity>,
    pub(super) service: Record<Service>,
    pub(super) right: Right,
    pub(super) access: &'q Access,
    pub(super) hosting: Option<&'q Hosting>,
    /// The newest complete session of the identity.
    pub(super) session: Option<Record<ApiSession>>,
    /// When the data file was restored, before which no report of an endpoint counts.
    pub(super) restored_at: Option<Timestamp>,
}

/// A record of the management interface.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Named")]
pub(crate) struct NamedRecord {
    pub(super) id: String,
    pub(super) name: String,
}

impl NamedRecord {
    pub(super) fn new<E: Entity>(record: &Record<E>, name: &str) -> Self {
        Self {
            id: record.id.to_string(),
            name: name.into(),
        }
    }
}
