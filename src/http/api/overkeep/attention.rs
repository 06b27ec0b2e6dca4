//! Identities that are disabled, and enrollments that nobody has used. Lists do not filter by these, so they are counted here.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::names::Named;
use crate::{
    clock::Timestamp,
    entity::{Enrollment, Id, Identity, tombstone},
    error::Result,
    http::{answer::Data, call::Call},
    store::Read,
};

/// The maximum number of records of each group that an answer names.
const NAMED: usize = 5;

/// Records that need the attention of an administrator.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Attention")]
pub(crate) struct Attention {
    /// Identities that may not log in at present.
    disabled_identities: Disabled,
    /// Enrollments whose tokens can still be used.
    outstanding_enrollments: Unused,
    /// Enrollments whose tokens have expired unused.
    expired_enrollments: Unused,
}

/// Disabled identities.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DisabledIdentities")]
struct Disabled {
    /// The number of all of them.
    total: u64,
    /// The first five by name.
    first: Vec<Named>,
}

/// Unused enrollments.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UnusedEnrollments")]
struct Unused {
    /// The number of all of them.
    total: u64,
    /// The five that expire first, or expired first.
    first: Vec<UnusedEnrollment>,
}

/// An unused enrollment.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UnusedEnrollment {
    id: String,
    /// The id of the identity, if the enrollment is for one.
    identity_id: Option<String>,
    /// The name of the identity or router that the enrollment is for.
    name: String,
    expires_at: Timestamp,
}

/// GET /attention
pub(crate) async fn show(call: Call) -> Result<Data<Attention>> {
    let now = call.now;
    call.store.scan(move |read| attention(read, now)).await.map(Data)
}

fn attention(read: &Read<'_>, now: Timestamp) -> Result<Attention> {
    let mut disabled = First::new();
    read.each_readable::<Identity>(|identity| {
        if identity.state.is_disabled(now) {
            disabled.add((identity.spec.name, identity.id.to_string()));
        }
        Ok(())
    })?;
    let (mut outstanding, mut expired) = (First::new(), First::new());
    read.each_readable::<Enrollment>(|enrollment| {
        if !tombstone::stands(&enrollment, read)? {
            return Ok(());
        }
        let group = if enrollment.spec.expires_at < now { &mut expired } else { &mut outstanding };
        group.add((enrollment.spec.expires_at, enrollment.id));
        Ok(())
    })?;
    Ok(Attention {
        disabled_identities: Disabled {
            total: disabled.total,
            first: disabled.first.into_iter().map(|(name, id)| Named { id, name }).collect(),
        },
        outstanding_enrollments: unused(read, outstanding)?,
        expired_enrollments: unused(read, expired)?,
    })
}

fn unused(read: &Read<'_>, found: First<(Timestamp, Id<Enrollment>)>) -> Result<Unused> {
    let mut first = Vec::new();
    for (expires_at, id) in found.first {
        let Some(enrollment) = read.find_readable(&id)? else { continue };
        first.push(UnusedEnrollment {
            id: id.to_string(),
            name: enrollment.spec.subject_name(read)?,
            identity_id: enrollment.spec.identity_id.map(|id| id.to_string()),
            expires_at,
        });
    }
    Ok(Unused { total: found.total, first })
}

/// The number of all items, and the first of them in their order.
struct First<T> {
    total: u64,
    first: BTreeSet<T>,
}

impl<T: Ord> First<T> {
    const fn new() -> Self {
        Self { total: 0, first: BTreeSet::new() }
    }

    fn add(&mut self, item: T) {
        self.total += 1;
        self.first.insert(item);
        if self.first.len() > NAMED {
            self.first.pop_last();
        }
    }
}
