//! Policies that match only one of two subjects, and what the other one lacks.

use super::{
    Engine, PolicyEntityKind, Right, RoleMatch, policy_index::PolicyIndex, role_index::RoleIndex,
    roles::List,
};
use roaring::RoaringBitmap;
use std::sync::Arc;

/// A policy that matches one of two subjects, and what would make it match the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NearMiss {
    pub(crate) policy: Arc<str>,
    /// The subject that is not matched.
    pub(crate) missing: PolicyEntityKind,
    /// Why the other subject is matched.
    pub(crate) matched: RoleMatch,
    /// Missing role attributes: any one of the entries would do, and all attributes of an entry are
    /// needed together. Empty if the policy lists no attributes; then only naming the id in it
    /// helps.
    pub(crate) lacking: Vec<Vec<Arc<str>>>,
    /// The ids of all posture checks that must pass as well, in order.
    pub(crate) posture_checks: Vec<Arc<str>>,
}

impl Engine {
    /// The service policies of a type that match the identity or the service, but not both, in
    /// order of id.
    pub(crate) fn near_misses(&self, identity: &str, service: &str, right: Right) -> Vec<NearMiss> {
        self.misses_between(
            &self.service_policies,
            (PolicyEntityKind::Identity, identity),
            (PolicyEntityKind::Service, service),
            self.types.granting(right),
        )
    }

    fn misses_between(
        &self,
        index: &PolicyIndex,
        one: (PolicyEntityKind, &str),
        other: (PolicyEntityKind, &str),
        among: &RoaringBitmap,
    ) -> Vec<NearMiss> {
        let matching = |(subject, id): (PolicyEntityKind, &str)| {
            self.row(subject, id)
                .map(|row| index.policies_of(subject, row, &self.all) & among)
                .unwrap_or_default()
        };
        let (ones, others) = (matching(one), matching(other));
        let lacks_other = (&ones - &others)
            .into_iter()
            .filter_map(|policy| self.lacking(index, policy, one, other));
        let lacks_one = (&others - &ones)
            .into_iter()
            .filter_map(|policy| self.lacking(index, policy, other, one));
        let mut near: Vec<NearMiss> = lacks_other.chain(lacks_one).collect();
        near.sort_unstable_by(|a, b| a.policy.cmp(&b.policy));
        near
    }

    /// What `missing` lacks for a policy that matches `there`.
    fn lacking(
        &self,
        index: &PolicyIndex,
        policy: u32,
        there: (PolicyEntityKind, &str),
        missing: (PolicyEntityKind, &str),
    ) -> Option<NearMiss> {
        let subject = |(subject, id)| self.all.population(subject).subject(self.row(subject, id)?);
        let (id, roles) = subject(there)?;
        let because = index.role_index(there.0)?.match_reason(policy, id, roles)?;
        let list = index
            .role_index(missing.0)
            .and_then(|side: &RoleIndex| side.list(policy))?;
        let (_, held) = subject(missing)?;
        Some(NearMiss {
            policy: index.names().text(policy)?.clone(),
            missing: missing.0,
            matched: self.reason(there.0, because),
            lacking: self.attributes(missing.0, list, held),
            posture_checks: self.checks(policy),
        })
    }

    fn attributes(
        &self,
        subject: PolicyEntityKind,
        list: &List,
        held: &[u32],
    ) -> Vec<Vec<Arc<str>>> {
        let name = |attribute: &u32| {
            self.all
                .population(subject)
                .attribute_name(*attribute)
                .cloned()
        };
        let alternatives = list.any_of().iter().map(|attribute| vec![*attribute]);
        let together: Vec<u32> = list
            .all_of()
            .iter()
            .filter(|attribute| held.binary_search(attribute).is_err())
            .copied()
            .collect();
        let together = (!together.is_empty()).then_some(together);
        alternatives
            .chain(together)
            .map(|attributes| attributes.iter().filter_map(name).collect())
            .collect()
    }
}
