//! Services that nobody hosts, or whose dials fail, identities that are disabled, enrollments that
//! nobody has used, and auth policies whose passwords can be guessed. Lists of records do not
//! filter by these, so they are counted here. An API token sees names only if its scope has the
//! kinds that are named.

use std::{cmp::Reverse, collections::BTreeSet, time::Duration};

use model::{
    clock::Timestamp,
    entity::{
        AuthPolicy, EdgeRouter, Enrollment, Entity, Id, Identity, Service, TransitRouter, tombstone,
    },
    error::Result,
};
use policy::{
    authentication::guessable_policies,
    hosting::{Absence, Hosting, Standing},
};
use schemars::JsonSchema;
use serde::Serialize;
use store::Read;

use super::{hosting::ServiceHosting, names::Named};
use crate::{answer::Data, call::Call};

/// The maximum number of records of each group that an answer names.
const NAMED: usize = 5;
/// How long hosts have to connect again after a start before their absence needs attention.
const START: Duration = Duration::from_secs(60);

/// Records that need the attention of an administrator.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Attention")]
pub(crate) struct Attention {
    /// Services that nobody hosts, although somebody did, or although they are older than the start
    /// of the controller. None until a minute after the start, when hosts have connected again.
    unhosted_services: Services,
    /// Services with hosts of which the last dial of each failed.
    failing_services: Services,
    /// Identities that may not log in at present.
    disabled_identities: Disabled,
    /// Enrollments whose tokens can still be used.
    outstanding_enrollments: Unused,
    /// Enrollments whose tokens have expired unused.
    expired_enrollments: Unused,
    /// Auth policies in use that allow passwords with less than 12 characters, or any number of
    /// wrong ones.
    guessable_passwords: GuessablePolicies,
}

/// Auth policies whose passwords can be guessed.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GuessablePasswords")]
struct GuessablePolicies {
    /// The number of all of them.
    total: u64,
    /// The first five by name; none for an API token whose scope lacks auth policies.
    first: Vec<Named>,
}

/// Services that clients do not reach.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UnreachedServices")]
struct Services {
    /// The number of all of them.
    total: u64,
    /// The first five, the last ones that were lost first; none for an API token whose scope lacks
    /// services, identities or edge routers.
    first: Vec<ServiceHosting>,
}

/// Disabled identities.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DisabledIdentities")]
struct Disabled {
    /// The number of all of them.
    total: u64,
    /// The first five by name; none for an API token whose scope lacks identities.
    first: Vec<Named>,
}

/// Unused enrollments.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UnusedEnrollments")]
struct Unused {
    /// The number of all of them.
    total: u64,
    /// The five that expire first, or expired first; none for an API token whose scope lacks
    /// enrollments, identities or routers.
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
    let (now, hosting, caller) = (call.now, call.state.network.hosting.clone(), call.caller()?);
    let may_name = |kinds: &[&str]| kinds.iter().all(|kind| caller.may_name(kind));
    let names_services = may_name(&[
        Service::KIND.path,
        Identity::KIND.path,
        EdgeRouter::KIND.path,
    ]);
    let names_identities = may_name(&[Identity::KIND.path]);
    let names_policies = may_name(&[AuthPolicy::KIND.path]);
    let names_enrollments = may_name(&[
        Enrollment::KIND.path,
        Identity::KIND.path,
        EdgeRouter::KIND.path,
        TransitRouter::KIND.path,
    ]);
    let mut attention = call
        .state
        .store
        .scan(move |read| attention(read, &hosting, now))
        .await?;
    if !names_services {
        attention.unhosted_services.first.clear();
        attention.failing_services.first.clear();
    }
    if !names_identities {
        attention.disabled_identities.first.clear();
    }
    if !names_policies {
        attention.guessable_passwords.first.clear();
    }
    if !names_enrollments {
        attention.outstanding_enrollments.first.clear();
        attention.expired_enrollments.first.clear();
    }
    Ok(Data(attention))
}

fn attention(read: &Read<'_>, hosting: &Hosting, now: Timestamp) -> Result<Attention> {
    let (mut unhosted, mut failing) = (First::new(), First::new());
    read.each_readable::<Service>(|service| {
        let key = |at: Option<Timestamp>| (Reverse(at), service.id.to_string());
        match hosting.standing(&service) {
            Standing::Unhosted(Absence::Since(at), _) => unhosted.add(key(Some(at))),
            Standing::Unhosted(Absence::BeforeStart, _) | Standing::Unseen
                if now.apart(hosting.started()) >= START =>
            {
                unhosted.add(key(None))
            }
            Standing::Hosted if hosting.is_failing(service.id.as_str()) => failing.add(key(None)),
            _ => {}
        }
        Ok(())
    })?;
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
        let group = if enrollment.spec.expires_at < now {
            &mut expired
        } else {
            &mut outstanding
        };
        group.add((enrollment.spec.expires_at, enrollment.id));
        Ok(())
    })?;
    let mut guessable = First::new();
    for policy in guessable_policies(read)? {
        guessable.add((policy.spec.name, policy.id.to_string()));
    }
    Ok(Attention {
        unhosted_services: services(read, hosting, unhosted)?,
        failing_services: services(read, hosting, failing)?,
        disabled_identities: Disabled {
            total: disabled.total,
            first: named(disabled.first),
        },
        outstanding_enrollments: unused(read, outstanding)?,
        expired_enrollments: unused(read, expired)?,
        guessable_passwords: GuessablePolicies {
            total: guessable.total,
            first: named(guessable.first),
        },
    })
}

fn named(found: BTreeSet<(String, String)>) -> Vec<Named> {
    found
        .into_iter()
        .map(|(name, id)| Named { id, name })
        .collect()
}

fn services(
    read: &Read<'_>,
    hosting: &Hosting,
    found: First<(Reverse<Option<Timestamp>>, String)>,
) -> Result<Services> {
    let mut first = Vec::new();
    for (_, id) in found.first {
        first.extend(ServiceHosting::find(read, hosting, &id)?);
    }
    Ok(Services {
        total: found.total,
        first,
    })
}

fn unused(read: &Read<'_>, found: First<(Timestamp, Id<Enrollment>)>) -> Result<Unused> {
    let mut first = Vec::new();
    for (expires_at, id) in found.first {
        let Some(enrollment) = read.find_readable(&id)? else {
            continue;
        };
        first.push(UnusedEnrollment {
            id: id.to_string(),
            name: enrollment.spec.subject_name(read)?,
            identity_id: enrollment.spec.identity_id.map(|id| id.to_string()),
            expires_at,
        });
    }
    Ok(Unused {
        total: found.total,
        first,
    })
}

/// The number of all items, and the first of them in their order.
struct First<T> {
    total: u64,
    first: BTreeSet<T>,
}

impl<T: Ord> First<T> {
    const fn new() -> Self {
        Self {
            total: 0,
            first: BTreeSet::new(),
        }
    }

    fn add(&mut self, item: T) {
        self.total += 1;
        self.first.insert(item);
        if self.first.len() > NAMED {
            self.first.pop_last();
        }
    }
}
