//! What a preview shows: who would gain and who would lose access by a change.
//!
//! The change is carried out in memory, with all rules and references (`change_mode.rs`), and the
//! access engine compares the result with the present state. Nothing is written to the store or
//! published. An API token sees names of the kinds in its scope only, and the counts of all.

use model::{
    entity::{
        EdgeRouter, Entity, EntityRef, Id, Identity, PostureCheck, Record, Service, TypedLookup,
    },
    error::Result,
};
use policy::{
    access::{Access, AccessShare, Difference, PolicyEntityKind},
    authentication::Caller,
};
use schemars::JsonSchema;
use serde::Serialize;
use store::{Event, Read};

/// The maximum number of names listed per side.
pub(crate) const MAX_LISTED: usize = 20;

/// Who would gain and who would lose access.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Preview")]
pub(crate) struct PreviewedAccess {
    #[serde(flatten)]
    difference: Difference<EntityRef>,
    /// Who gains and who loses each of the services and edge routers that the counts list first.
    shares: Vec<AccessShare<EntityRef>>,
}

impl PreviewedAccess {
    /// What the events of a dry run would change, with the names that the caller may see.
    ///
    /// # Errors
    /// A record cannot be read.
    pub(crate) fn of(
        access: &Access,
        caller: &Caller,
        tx: &Read<'_>,
        events: &[Event],
    ) -> Result<Self> {
        let (difference, changes) =
            access.preview_changes(events, MAX_LISTED, |left| tx.before(left))?;
        let shares = access.shares(&changes, &difference, MAX_LISTED);
        let name = |subject, id: &str| {
            caller
                .may_name(path(subject))
                .then(|| named(tx, events, subject, id))
                .transpose()
        };
        let shares = shares
            .iter()
            .filter_map(|share| share.named(name).transpose())
            .collect::<Result<_>>()?;
        let difference = difference.named(name)?;
        Ok(Self { difference, shares })
    }
}

/// The path segment of a kind.
fn path(subject: PolicyEntityKind) -> &'static str {
    match subject {
        PolicyEntityKind::Identity => Identity::KIND.path,
        PolicyEntityKind::Service => Service::KIND.path,
        PolicyEntityKind::EdgeRouter => EdgeRouter::KIND.path,
        PolicyEntityKind::PostureCheck => PostureCheck::KIND.path,
    }
}

/// A subject with its name; a record that would be created is found in the events.
///
/// # Errors
/// The record cannot be read.
pub(crate) fn named(
    tx: &Read<'_>,
    events: &[Event],
    subject: PolicyEntityKind,
    id: &str,
) -> Result<EntityRef> {
    match subject {
        PolicyEntityKind::Identity => {
            reference::<Identity>(tx, events, id, |identity| &identity.name)
        }
        PolicyEntityKind::Service => reference::<Service>(tx, events, id, |service| &service.name),
        PolicyEntityKind::EdgeRouter => {
            reference::<EdgeRouter>(tx, events, id, |router| &router.name)
        }
        PolicyEntityKind::PostureCheck => {
            reference::<PostureCheck>(tx, events, id, |check| &check.name)
        }
    }
}

fn reference<E: Entity>(
    tx: &Read<'_>,
    events: &[Event],
    id: &str,
    name: fn(&E) -> &String,
) -> Result<EntityRef> {
    let created = || {
        events
            .iter()
            .filter(|event| event.id == id)
            .find_map(|event| event.of::<E>()?.1)
            .cloned()
    };
    let record: Option<Record<E>> = tx.find(&Id::from_text(id))?.or_else(created);
    Ok(EntityRef::new(
        E::KIND,
        id,
        record.as_ref().map_or("", |record| name(&record.spec)),
    ))
}
