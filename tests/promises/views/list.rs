//! One list as one caller gets it, and what its filters and orders reveal.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::members;
use crate::harness::{Base, Caller, encoded, interface};

/// Members whose name differs from the name in filters.
const MEMBERS: [(&str, &str); 16] = [
    ("sessions service", "serviceId"),
    ("sessions apiSession", "apiSessionId"),
    ("sessions type", "type"),
    ("identities type", "typeId"),
    ("configs type", "configTypeId"),
    ("terminators instanceId", "identity"),
    ("terminators service", "serviceId"),
    ("terminators router", "routerId"),
    ("edge-routers connected", "isOnline"),
    ("edge-routers online", "isOnline"),
    ("authenticators certFingerprint", "fingerprint"),
    ("authenticators updbUsername", "username"),
    ("api-sessions authenticator", "authenticatorId"),
    ("enrollments identity", "identityId"),
    ("enrollments edgeRouter", "edgeRouterId"),
    ("enrollments transitRouter", "transitRouterId"),
];

/// Names that only administrators may use although these lists do not show them: the recorded lists
/// accept them, and administrators see the members elsewhere.
const ADMINISTRATORS: [&str; 7] = [
    "terminators hostId",
    "posture-checks promptOnUnlock",
    "posture-checks promptOnWake",
    "routers fingerprint",
    "transit-routers fingerprint",
    "edge-routers fingerprint",
    "cas verificationToken",
];

/// Orders on members that the list does not show, as recorded.
const ORDERS: [&str; 1] = ["terminators address"];

/// One list as one caller gets it.
pub(super) struct List<'c> {
    caller: &'c Caller,
    is_admin: bool,
    path: String,
    /// The names in its `filterableFields`.
    pub(super) filterable: BTreeSet<String>,
    /// The last part of its path.
    of: String,
    pub(super) rows: Vec<Json>,
    /// The names of members in its rows, with dots.
    shown: BTreeSet<String>,
    /// The documented answer, for a list without rows.
    described: Json,
}

impl<'c> List<'c> {
    /// `None` if the caller gets no such list.
    pub(super) fn of(caller: &'c Caller, is_admin: bool, row: &str, id: &str) -> Option<Self> {
        let path = row.replace("{id}", id);
        let answer = caller.get(&format!("{path}?limit=-1"));
        let data = answer.data().get("edgeRouters").unwrap_or(answer.data());
        let rows = data.as_array().filter(|_| answer.status == 200)?.clone();
        let mut shown = BTreeSet::new();
        rows.iter().for_each(|row| members(row, "", &mut shown));
        let described =
            interface(caller.base).document["paths"][row]["get"]["responses"]["200"].clone();
        let of = row.rsplit('/').next().unwrap().to_owned();
        let filterable = answer.json["meta"]["filterableFields"]
            .as_array()
            .into_iter()
            .flatten();
        let filterable = filterable
            .map(|name| name.as_str().unwrap().to_owned())
            .filter(|name| name != "tags")
            .collect();
        Some(Self {
            caller,
            is_admin,
            path,
            filterable,
            of,
            rows,
            shown,
            described,
        })
    }

    fn total(&self, filter: &str) -> Option<usize> {
        let answer = self.caller.get(&format!(
            "{}?limit=-1&filter={}",
            self.path,
            encoded(filter)
        ));
        match answer.status {
            200 => Some(
                answer
                    .data()
                    .get("edgeRouters")
                    .unwrap_or(answer.data())
                    .as_array()
                    .unwrap()
                    .len(),
            ),
            _ => {
                assert_eq!(
                    (answer.status, answer.code()),
                    (400, "INVALID_FILTER"),
                    "{}",
                    answer.text
                );
                None
            }
        }
    }

    fn filters(&self, name: &str) -> bool {
        self.total(&format!("{name} = null")).is_some()
            || self.total(&format!("isEmpty({name})")).is_some()
    }

    fn orders(&self, name: &str) -> bool {
        let answer = self
            .caller
            .get(&format!("{}?limit=1&sort={name}", self.path));
        let inside = self.total(&format!("true sort by {name}")).is_some();
        // Lists of role attributes ignore the order.
        inside || (answer.status == 200 && !self.of.ends_with("role-attributes"))
    }

    /// Whether a member of this name is in the answer.
    fn shows(&self, name: &str) -> bool {
        let known = format!("{} {name}", self.of);
        let member = MEMBERS
            .iter()
            .find(|(of, _)| *of == known)
            .map_or(name, |(_, member)| member);
        // A documented member may be missing in the present rows; for administrators the document
        // is enough.
        let by_description = self.rows.is_empty() || self.is_admin;
        let is_there = |name: &str| {
            self.shown.contains(name)
                || (by_description && describes(&self.described, name, self.caller.base))
        };
        let found = is_there(name) || is_there(member);
        // A record may always be found by its id.
        found
            || name == "id"
            || (self.is_admin && (name == "isSystem" || ADMINISTRATORS.contains(&known.as_str())))
    }

    /// Names that are accepted and not shown.
    pub(super) fn leaks(&self, names: &BTreeSet<String>) -> Vec<String> {
        let mut leaks = Vec::new();
        for name in names {
            let (filters, orders) = (self.filters(name), self.orders(name));
            let known = format!("{} {name}", self.of);
            let leaks_order = orders && !ORDERS.contains(&known.as_str());
            if (filters || leaks_order) && !self.shows(name) {
                leaks.push(format!("{:?} {}: {name}", self.caller.base, self.path));
            }
        }
        // A filter on tags finds exactly the rows that show them, or is rejected.
        let tagged = self
            .rows
            .iter()
            .filter(|row| row.pointer("/tags/colour").is_some())
            .count();
        if self
            .total("tags.colour != null")
            .is_some_and(|found| found != tagged)
        {
            leaks.push(format!("{:?} {}: tags", self.caller.base, self.path));
        }
        leaks.extend((!self.is_admin).then(|| self.reveals_others()).flatten());
        leaks
    }

    /// A filter over records that the list only names.
    fn reveals_others(&self) -> Option<String> {
        let sets = ["configs", "roleAttributes", "service", "identity"];
        let filterable = sets.into_iter().find(|set| {
            self.total(&format!("isEmpty(from {set} where name = \"x\")"))
                .is_some()
        })?;
        Some(format!(
            "{:?} {}: from {filterable}",
            self.caller.base, self.path
        ))
    }
}

/// Whether a documented answer contains a member anywhere.
fn describes(schema: &Json, member: &str, base: Base) -> bool {
    match schema {
        Json::Object(parts) => {
            parts
                .iter()
                .any(|(name, part)| match (name.as_str(), part.as_str()) {
                    ("$ref", Some(place)) => describes(
                        interface(base)
                            .document
                            .pointer(place.trim_start_matches('#'))
                            .unwrap(),
                        member,
                        base,
                    ),
                    _ => {
                        (name == "properties" && part.get(member).is_some())
                            || describes(part, member, base)
                    }
                })
        }
        Json::Array(parts) => parts.iter().any(|part| describes(part, member, base)),
        _ => false,
    }
}
