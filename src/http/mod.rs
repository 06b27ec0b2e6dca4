//! REST: who asks and how it is answered.
//!
//! Here: the route tables of the interfaces (`management/mod.rs`, `client/mod.rs`: read them first; `overkeep/mod.rs` is what only this
//! controller has, `fabric/mod.rs` what the tools of operators list), the types that functions in them take and answer with (`argument.rs`, `answer.rs`), the verbs that all kinds share
//! (`verbs.rs`), a look at what they would do instead of doing it (`preview.rs`), and the front door (`front.rs`). Not here: rules of
//! kinds, storage, who may use what. Invariant: nothing about an operation is said twice; routing, documents, validation and permission
//! all come from its row.
//!
//! Bodies that are no JSON are arguments like any other (`client/enroll.rs`); half-authenticated callers are `Permission::Partial`;
//! what a service is for the one who looks is `common/service.rs`, beside what it is by itself in `entity/`.

mod action;
mod answer;
mod argument;
mod body;
mod bounds;
mod call;
mod client;
mod common;
mod connection;
mod cors;
mod descriptions;
mod docs;
mod document;
mod doors;
mod envelope;
mod error;
mod fabric;
mod front;
mod glossary;
mod header;
mod heads;
mod ledger;
mod lenient;
mod listed;
mod management;
mod media;
mod multiplexed;
mod operation;
mod outgoing;
mod overkeep;
mod packed;
mod preview;
mod route;
mod row;
mod sample;
mod sentences;
mod services;
mod strict;
mod target;
mod verbs;
mod welcome;

pub use bounds::Limits;
pub use common::{network_token::NetworkTokens, routers::Routers, texts::Texts};
pub use connection::Patience;
pub use descriptions::Descriptions;
pub use doors::{Rest, doors};
pub use front::Front;
pub use header::Header;
pub use ledger::Bounds;
pub use overkeep::Watchers;
pub use route::{Found, Interface};
pub use row::{Permission, Row};
pub use services::Services;

use crate::error::Result;

/// Every interface of the controller.
pub struct Interfaces {
    pub management: Interface,
    pub client: Interface,
    /// What only this controller has.
    pub overkeep: Interface,
    /// Routers, links and circuits, for the tools of operators.
    pub fabric: Interface,
}

impl Interfaces {
    /// All of them, finished.
    ///
    /// # Errors
    /// A row is wrong in itself, which is a defect.
    pub fn new() -> Result<Self> {
        Ok(Self {
            management: management::routes().finish()?,
            client: client::routes().finish()?,
            overkeep: overkeep::routes().finish()?,
            fabric: fabric::routes().finish()?,
        })
    }
}
