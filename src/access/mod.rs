//! Who may use what: role attributes and policies in memory, and every question about them.
//!
//! Here: the match rule (`roles::List`), what subjects exist and which attributes they have (`population`), which
//! policies name whom (`side`, `book`), what an identity may dial and bind (`rights`), when that last changed (`watch`),
//! and one face for all of it, [`Engine`]. Deliberately not here: records, names, sessions, times of day, whether posture
//! checks pass, whether a router is connected, and locks. The caller says what changed and when, and keeps the engine
//! behind one short lock.
//!
//! The shape: **nothing evaluated is stored**. An attribute has a bitmap of the subjects that carry it and each side of a
//! kind of policy has, per attribute, a bitmap of the policies that list it. From a subject to its policies, and from
//! policies to their members, is a union of a handful of bitmaps either way. So a policy change is an index entry, a role
//! change flips one bit per attribute, there is no derived state that could go stale, and 100,000 identities cost nothing
//! but their ids. What is kept of answers (rights, and which edge routers are reached, each shared by all with the same roles) is
//! thrown away whole as soon as a policy that it may depend on changes, or what such policies lead to.
//!
//! Start reading at `roles.rs` (the rule, one screen), then `role_index.rs` (the two directions), then `questions.rs`. What would be if something
//! changed is the same engine, changed for a moment (`what_if`), and the difference (`preview`). What changes did give and take is told in the
//! history by an engine of its own that follows it row by row (`history_rows.rs`, `access_audit.rs`).
//!
//! Invariant: the index only proposes, the rule decides. Whatever is allowed, listed or explained went through
//! `List::because` or through its one bitmap form in `role_index.rs`; a property test holds the two,
//! a rebuilt engine and a naive model together.

mod access_audit;
mod assertion;
mod engine;
mod feed;
mod history_rows;
mod names;
mod near_miss;
mod observer;
mod policy_index;
mod population;
mod preview;
mod questions;
mod rights;
mod role_diff;
mod role_index;
mod roles;
mod what_if;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use access_audit::AccessAudit;
pub use assertion::{Assertion, Selection, Violation};
pub use engine::Engine;
pub use feed::{Access, related, subject};
pub use names::Named;
pub use near_miss::NearMiss;
pub use preview::{Changes, Difference};
pub use questions::{GrantReason, PolicyGrant, Reason};
pub use rights::Rights;
pub use what_if::Delta;

/// What policies are about. Each has its own dense rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    Identity,
    Service,
    EdgeRouter,
    PostureCheck,
}

/// What a service policy gives: to reach a service (`Dial`) or to host it (`Bind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Right {
    Dial,
    Bind,
}

impl Right {
    /// The verb of a sentence.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Dial => "dial",
            Self::Bind => "bind",
        }
    }
}

/// How the attributes of a role list combine. Ids are alternatives under both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Semantic {
    AllOf,
    AnyOf,
}

/// Names a kind of policy in a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyKind {
    Service,
    EdgeRouter,
    ServiceEdgeRouter,
}

/// For each side of a policy `#attribute`, `#all` and `@id`.
pub type Lists = Vec<(Subject, Vec<String>)>;

/// What a policy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub kind: PolicyKind,
    pub semantic: Semantic,
    /// What a service policy gives; others give nothing but routers.
    pub right: Option<Right>,
    pub lists: Lists,
}

impl Policy {
    /// A service policy.
    pub fn service(right: Right, semantic: Semantic, identities: Vec<String>, services: Vec<String>, posture_checks: Vec<String>) -> Self {
        let lists = vec![(Subject::Identity, identities), (Subject::Service, services), (Subject::PostureCheck, posture_checks)];
        Self { kind: PolicyKind::Service, semantic, right: Some(right), lists }
    }

    /// A policy that lets identities use edge routers.
    pub fn edge_router(semantic: Semantic, identities: Vec<String>, edge_routers: Vec<String>) -> Self {
        let lists = vec![(Subject::Identity, identities), (Subject::EdgeRouter, edge_routers)];
        Self { kind: PolicyKind::EdgeRouter, semantic, right: None, lists }
    }

    /// A policy that lets services be reached over edge routers.
    pub fn service_edge_router(semantic: Semantic, services: Vec<String>, edge_routers: Vec<String>) -> Self {
        let lists = vec![(Subject::Service, services), (Subject::EdgeRouter, edge_routers)];
        Self { kind: PolicyKind::ServiceEdgeRouter, semantic, right: None, lists }
    }
}
