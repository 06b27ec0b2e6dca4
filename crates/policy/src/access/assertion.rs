//! Assertions: what policies must allow, and must not, for whole groups at once.

use super::{Engine, PolicyEntityKind, Right, policy_index::SubjectClass};
use roaring::RoaringBitmap;
use std::{collections::HashMap, sync::Arc};

/// The selected subjects of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    All,
    /// Those that have a role attribute.
    Role(String),
    Id(String),
}

/// The required or forbidden access of each of the selected identities to each of the selected
/// services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assertion {
    pub identities: Selection,
    pub services: Selection,
    pub right: Right,
    /// Whether a policy must grant the right; otherwise none may.
    pub is_granted: bool,
}

/// The pairs of an identity and a service that violate an assertion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssertionViolation {
    pub pairs: u64,
    /// The first of them, ordered by id.
    pub first: Vec<(Arc<str>, Arc<str>)>,
}

impl Selection {
    fn rows(&self, engine: &Engine, subject: PolicyEntityKind) -> RoaringBitmap {
        let population = engine.all.population(subject);
        match self {
            Self::All => population.everyone().clone(),
            Self::Role(role) => population.carriers_of(role),
            Self::Id(id) => population.row(id).into_iter().collect(),
        }
    }
}

impl Assertion {
    /// The violations, with at most `limit` pairs. Identities that the same policies match are
    /// evaluated together.
    pub(super) fn violation(&self, engine: &Engine, limit: usize) -> AssertionViolation {
        let (policies, all) = (&engine.service_policies, &engine.all);
        let mut classes: HashMap<Option<SubjectClass>, RoaringBitmap> = HashMap::new();
        for row in self.identities.rows(engine, PolicyEntityKind::Identity) {
            classes
                .entry(policies.class(PolicyEntityKind::Identity, row, all))
                .or_default()
                .insert(row);
        }
        let services = self.services.rows(engine, PolicyEntityKind::Service);
        let mut found = AssertionViolation::default();
        for rows in classes.into_values() {
            let matching = rows
                .min()
                .map(|row| policies.policies_of(PolicyEntityKind::Identity, row, all))
                .unwrap_or_default();
            let allowed = policies.members(
                &(matching & engine.types.granting(self.right)),
                PolicyEntityKind::Service,
                all,
            );
            let wrong = if self.is_granted {
                &services - &allowed
            } else {
                &services & &allowed
            };
            found.pairs += rows.len() * wrong.len();
            let identity_set = engine.subjects(PolicyEntityKind::Identity, rows);
            let service_set = engine.subjects(PolicyEntityKind::Service, wrong);
            for (_, identity) in identity_set.in_order().take(limit) {
                found.first.extend(
                    service_set
                        .in_order()
                        .take(limit)
                        .map(|(_, service)| (identity.clone(), service.clone())),
                );
            }
            found.first.sort();
            found.first.truncate(limit);
        }
        found
    }
}
