//! The members in which an object of a network document differs from its record.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json};

/// A member that changes; references are shown as names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "NetworkMemberChange")]
pub(crate) struct MemberChange {
    /// The name of the member, as requests write it.
    pub member: String,
    pub before: Json,
    pub after: Json,
}

/// The members that differ, in the order of their names. Both objects have names as references.
pub(super) fn differences(before: &Json, after: &Json) -> Vec<MemberChange> {
    let names = [before, after]
        .into_iter()
        .filter_map(Json::as_object)
        .flat_map(Map::keys)
        .collect::<BTreeSet<_>>();
    let of = |json: &Json, name: &str| json.get(name).cloned().unwrap_or_default();
    let changes = names.into_iter().map(|name| MemberChange {
        member: name.clone(),
        before: of(before, name),
        after: of(after, name),
    });
    changes
        .filter(|member| member.before != member.after)
        .collect()
}
