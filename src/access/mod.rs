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
//! but their ids. What is kept of answers (`Rights`, shared by all identities with the same roles) is thrown away whole as
//! soon as anything it depends on changes.
//!
//! Start reading at `roles.rs` (the rule, one screen), then `side.rs` (the two directions), then `questions.rs`.
//!
//! Invariant: the index only proposes, the rule decides. Whatever is allowed, listed or explained went through
//! `List::because` or through its one bitmap form in `side.rs`; a property test holds the two,
//! a rebuilt engine and a naive model together.

mod book;
mod engine;
mod feed;
mod names;
mod near;
mod population;
mod questions;
mod rights;
mod roles;
mod side;
mod watch;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use engine::Engine;
pub use feed::{Access, related, subject};
pub use names::Named;
pub use near::Near;
pub use questions::{Granting, Reason};
pub use rights::Rights;

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

/// A policy as told to the engine: per side a list of `#attribute`, `#all` and `@id`.
#[derive(Clone, Copy, Debug)]
pub enum Policy<'a> {
    Service { right: Right, identities: &'a [String], services: &'a [String], posture_checks: &'a [String] },
    EdgeRouter { identities: &'a [String], edge_routers: &'a [String] },
    ServiceEdgeRouter { services: &'a [String], edge_routers: &'a [String] },
}
