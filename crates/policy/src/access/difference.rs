//! The access that changes give and take, as callers see it.

use std::sync::Arc;

use model::entity::{Counted, PairCount};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    PolicyEntityKind,
    relation::{BIND, DIAL, IDENTITY_ROUTERS, Relation, SERVICE_ROUTERS},
};

/// What changes would give and take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AccessDifference")]
pub struct Difference<N = Arc<str>> {
    /// Identities, and services that policies let them dial.
    pub dial: AccessDiff<N>,
    /// Identities, and services that policies let them bind.
    pub bind: AccessDiff<N>,
    /// Identities, and edge routers that they may use.
    pub identity_routers: AccessDiff<N>,
    /// Services, and edge routers that they may be reached over.
    pub service_routers: AccessDiff<N>,
}

/// The access gained and lost in one relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "AccessDiff")]
pub struct AccessDiff<N> {
    /// What may be used after the change and not before.
    pub gained: PairCount<N>,
    /// What may be used before the change and not after.
    pub lost: PairCount<N>,
}

impl<N> Difference<N> {
    /// The difference that the opposite change would make.
    pub(super) fn reversed(self) -> Self {
        let reversed = |AccessDiff { gained, lost }: AccessDiff<N>| AccessDiff {
            gained: lost,
            lost: gained,
        };
        Self {
            dial: reversed(self.dial),
            bind: reversed(self.bind),
            identity_routers: reversed(self.identity_routers),
            service_routers: reversed(self.service_routers),
        }
    }
}

impl Difference {
    /// The same difference with each id replaced, or left out where `name` gives nothing. The
    /// counts stay.
    ///
    /// # Errors
    /// The first error of `name`.
    pub fn named<N, E>(
        &self,
        name: impl Fn(PolicyEntityKind, &str) -> Result<Option<N>, E>,
    ) -> Result<Difference<N>, E> {
        let counted = |subject, Counted { count, first }: &Counted<Arc<str>>| {
            let first: Result<Vec<N>, E> = first
                .iter()
                .filter_map(|id| name(subject, id).transpose())
                .collect();
            Ok(Counted {
                count: *count,
                first: first?,
            })
        };
        let count_pairs = |of: &Relation, PairCount { pairs, who, what }: &PairCount<Arc<str>>| {
            Ok(PairCount {
                pairs: *pairs,
                who: counted(of.who, who)?,
                what: counted(of.what, what)?,
            })
        };
        let changes_of = |of: &Relation, changes_of: &AccessDiff<Arc<str>>| {
            Ok(AccessDiff {
                gained: count_pairs(of, &changes_of.gained)?,
                lost: count_pairs(of, &changes_of.lost)?,
            })
        };
        Ok(Difference {
            dial: changes_of(&DIAL, &self.dial)?,
            bind: changes_of(&BIND, &self.bind)?,
            identity_routers: changes_of(&IDENTITY_ROUTERS, &self.identity_routers)?,
            service_routers: changes_of(&SERVICE_ROUTERS, &self.service_routers)?,
        })
    }
}
