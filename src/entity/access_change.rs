//! What changes give and take: how many pairs of one who may and what it may use, and some of them by name.
//!
//! Not here: how it is found out (`access/`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::query::Value;

/// Pairs of one who may, and what it may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AccessTally")]
pub struct PairCount<N> {
    /// How many there are.
    pub pairs: u64,
    /// Who is in the pairs.
    pub who: Counted<N>,
    /// What is in the pairs.
    pub what: Counted<N>,
}

/// One side of the pairs, each subject once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AccessCounted")]
pub struct Counted<N> {
    /// How many there are.
    pub count: u64,
    /// The first of them, in the order of their ids.
    pub first: Vec<N>,
}

/// Somebody or something, by the name it had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AccessNamed")]
pub struct Named {
    pub id: String,
    pub name: String,
}

/// Pairs by what they are of; none where there are none.
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

/// What changes gave and took, taken together: what came and went again in between is in neither.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AccessGains")]
pub struct AccessChange {
    /// The sequence of the first row of the changes.
    pub first: u64,
    /// The sequence of the last row of the changes that has to do with it.
    pub last: u64,
    /// How many changes they are. More than one where they came faster than each could be told of by itself.
    pub changes: u64,
    /// What may be used since and might not before.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub gained: Pairs,
    /// What might be used before and may not since.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub lost: Pairs,
}

impl AccessChange {
    /// Whether nothing is different.
    pub fn is_none(&self) -> bool {
        self.gained.is_empty() && self.lost.is_empty()
    }
}

impl Pairs {
    fn all(&self) -> impl Iterator<Item = &PairCount<Named>> {
        [&self.dial, &self.bind, &self.identity_routers, &self.service_routers].into_iter().flatten()
    }

    fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// Ids and names of those who are named.
    pub fn who(&self) -> Value<'_> {
        self.all().flat_map(|tally| &tally.who.first).flat_map(Named::words).collect()
    }

    /// Ids and names of what is named.
    pub fn what(&self) -> Value<'_> {
        self.all().flat_map(|tally| &tally.what.first).flat_map(Named::words).collect()
    }
}

impl Named {
    fn words(&self) -> [&str; 2] {
        [&self.id, &self.name]
    }
}
