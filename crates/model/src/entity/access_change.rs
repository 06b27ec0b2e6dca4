//! The access that changes gave and took: numbers of pairs (who may use what), and some of them by
//! name.
//!
//! Not here: how it is computed (`access/` of the crate `policy`).

use query::Value;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number of pairs: who may use, and what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AccessTally")]
pub struct PairCount<N> {
    /// The number of pairs.
    pub pairs: u64,
    /// The users in the pairs.
    pub who: Counted<N>,
    /// What is used in the pairs.
    pub what: Counted<N>,
}

/// One side of the pairs, each subject once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AccessCounted")]
pub struct Counted<N> {
    /// The number of subjects.
    pub count: u64,
    /// The first of them, ordered by id.
    pub first: Vec<N>,
}

/// A record with the name that it had at the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AccessNamed")]
pub struct Named {
    pub id: String,
    pub name: String,
}

/// Pairs by relation; absent if there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AccessPairs")]
pub struct Pairs {
    /// Identities, and services that policies let them dial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dial: Option<PairCount<Named>>,
    /// Identities, and services that policies let them bind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind: Option<PairCount<Named>>,
    /// Identities, and edge routers that they may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_routers: Option<PairCount<Named>>,
    /// Services, and edge routers that they may be reached over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_routers: Option<PairCount<Named>>,
}

/// The net effect of changes: what was gained and lost again in between is in neither list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AccessGains")]
pub struct AccessChange {
    /// The sequence of the first row of the changes.
    pub first: u64,
    /// The sequence of the last row of the changes that affects access.
    pub last: u64,
    /// The number of changes. It is more than one if changes came faster than they could be
    /// processed one by one.
    pub changes: u64,
    /// What may be used after the changes and not before.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub gained: Pairs,
    /// What may be used before the changes and not after.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub lost: Pairs,
}

impl AccessChange {
    /// Whether access did not change.
    pub fn is_none(&self) -> bool {
        self.gained.is_empty() && self.lost.is_empty()
    }
}

impl Pairs {
    fn all(&self) -> impl Iterator<Item = &PairCount<Named>> {
        [
            &self.dial,
            &self.bind,
            &self.identity_routers,
            &self.service_routers,
        ]
        .into_iter()
        .flatten()
    }

    fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// The ids and names of the named users.
    pub fn who(&self) -> Value<'_> {
        self.all()
            .flat_map(|count| &count.who.first)
            .flat_map(Named::words)
            .collect()
    }

    /// The ids and names of what is used.
    pub fn what(&self) -> Value<'_> {
        self.all()
            .flat_map(|count| &count.what.first)
            .flat_map(Named::words)
            .collect()
    }
}

impl Named {
    fn words(&self) -> [&str; 2] {
        [&self.id, &self.name]
    }
}
