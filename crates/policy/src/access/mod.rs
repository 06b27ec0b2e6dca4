//! Who may use what: role attributes and policies in memory, and every query about them.
//!
//! Here: the match rule (`roles::List`), the subjects and their attributes (`population`), the
//! policies and their role lists (`policy_index`, `role_index`), what an identity may dial and bind
//! (`rights`), when that last changed (`observer`), and one interface for all of it, [`Engine`].
//! Not here: records, names, sessions, the clock, whether posture checks pass, whether a router is
//! connected, and locks. The caller says what changed and when, and keeps the engine behind one
//! lock.
//!
//! **No evaluated result is stored.** An attribute has a bitmap of the subjects that carry it. Each
//! side of a kind of policy has, per attribute, a bitmap of the policies that list it. From a
//! subject to its policies, and from policies to their members, is a union of a few bitmaps. So a
//! policy change is an index entry, a role change flips one bit per attribute, no derived state can
//! become stale, and 100,000 identities cost only their ids. Results are cached (rights, and
//! reachable edge routers, each shared by all with the same roles); a cache is cleared as a whole
//! when a policy or member that it may depend on changes.
//!
//! Start at `roles.rs` (the rule), then `role_index.rs` (the two directions), then
//! `engine_queries.rs`. A preview changes the same engine temporarily (`what_if`) and computes the
//! difference (`preview`). The access that changes gave and took is written to the history by a
//! separate engine that follows the history (`history_rows.rs`, `change_shares.rs`,
//! `access_audit.rs`).
//!
//! Invariant: the index only proposes, the rule decides. Everything allowed, listed or explained
//! was decided by `List::match_reason` or its bitmap form in `role_index.rs`. A property test
//! compares both with a rebuilt engine and a naive model.

mod access_audit;
mod assertion;
mod change_shares;
mod difference;
mod engine;
mod engine_queries;
mod engine_roles;
mod feed;
mod fill;
mod history_rows;
mod names;
mod near_miss;
mod observer;
mod policy_index;
mod population;
mod preview;
mod record_deltas;
mod relation;
mod rights;
mod role_diff;
mod role_index;
mod roles;
mod shares;
mod what_if;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use access_audit::AccessAudit;
pub(crate) use assertion::AssertionViolation;
pub use assertion::{Assertion, Selection};
pub use difference::{AccessDiff, Difference};
pub use engine::Engine;
pub use engine_queries::{GrantReason, PolicyGrant, RoleMatch};
pub use engine_roles::subject;
pub use feed::{Access, related};
pub(crate) use names::NamedRows;
pub(crate) use near_miss::NearMiss;
pub use rights::ServiceRights;
pub use shares::AccessShare;
pub use what_if::Delta;

/// The kinds of records that policies are about. Each kind has its own dense rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyEntityKind {
    Identity,
    Service,
    EdgeRouter,
    PostureCheck,
}

/// What a service policy gives: to reach a service (`Dial`) or to host it (`Bind`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Right {
    Dial,
    Bind,
}

impl Right {
    /// The right as a verb.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Dial => "dial",
            Self::Bind => "bind",
        }
    }
}

/// How the attributes of a role list combine. Ids are alternatives under both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchRule {
    AllOf,
    AnyOf,
}

/// The kinds of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyKind {
    Service,
    EdgeRouter,
    ServiceEdgeRouter,
}

/// The role list of each side of a policy: `#attribute`, `#all` and `@id`.
pub(crate) type Lists = Vec<(PolicyEntityKind, Vec<String>)>;

/// The content of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub(crate) kind: PolicyKind,
    pub(crate) semantic: MatchRule,
    /// The right that a service policy gives; `None` for the other kinds.
    pub(crate) right: Option<Right>,
    pub(crate) lists: Lists,
}

impl Policy {
    /// A service policy.
    pub fn service(
        right: Right,
        semantic: MatchRule,
        identities: Vec<String>,
        services: Vec<String>,
        posture_checks: Vec<String>,
    ) -> Self {
        let lists = vec![
            (PolicyEntityKind::Identity, identities),
            (PolicyEntityKind::Service, services),
            (PolicyEntityKind::PostureCheck, posture_checks),
        ];
        Self {
            kind: PolicyKind::Service,
            semantic,
            right: Some(right),
            lists,
        }
    }

    /// A policy that lets identities use edge routers.
    pub fn edge_router(
        semantic: MatchRule,
        identities: Vec<String>,
        edge_routers: Vec<String>,
    ) -> Self {
        let lists = vec![
            (PolicyEntityKind::Identity, identities),
            (PolicyEntityKind::EdgeRouter, edge_routers),
        ];
        Self {
            kind: PolicyKind::EdgeRouter,
            semantic,
            right: None,
            lists,
        }
    }

    /// A policy that lets services be reached over edge routers.
    pub fn service_edge_router(
        semantic: MatchRule,
        services: Vec<String>,
        edge_routers: Vec<String>,
    ) -> Self {
        let lists = vec![
            (PolicyEntityKind::Service, services),
            (PolicyEntityKind::EdgeRouter, edge_routers),
        ];
        Self {
            kind: PolicyKind::ServiceEdgeRouter,
            semantic,
            right: None,
            lists,
        }
    }
}
