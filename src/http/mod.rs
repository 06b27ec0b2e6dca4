//! REST: who asks and how it is answered.
//!
//! Here: the route tables of the interfaces (`api/management/mod.rs`, `api/client/mod.rs`: read them first; `api/overkeep/mod.rs` is what only this
//! controller has, `api/fabric/mod.rs` what the tools of operators list), the types that functions in them take and answer with (`extractor.rs`, `answer.rs`), the operations that all kinds share
//! (`crud.rs`), a look at what they would do instead of doing it (`preview.rs`), and the dispatcher (`dispatch.rs`). Not here: rules of
//! kinds, storage, who may use what. Invariant: nothing about an operation is said twice; routing, documents, validation and permission
//! all come from its row.
//!
//! Bodies that are no JSON are arguments like any other (`api/client/enroll.rs`); half-authenticated callers are `Permission::Partial`;
//! what a service is for the one who looks is `api/common/service.rs`, beside what it is by itself in `entity/`.

mod answer;
mod api;
mod body;
mod cache;
mod call;
mod connection;
mod cors;
mod crud;
mod dispatch;
mod envelope;
mod error;
mod extractor;
mod gzip;
mod handler;
mod header;
mod history_watchers;
mod landing_page;
mod limits;
mod list_body;
mod list_part;
mod listing;
mod local;
mod media_type;
mod normalize;
mod openapi;
mod permission;
mod preview;
mod route;
mod row;
mod state;
mod unknown_members;

pub use cache::{json_cache::JsonCache, network_tokens::NetworkTokens, routers::Routers};
pub use connection::acceptor::{RestListener, connection_handlers};
pub use connection::guard::Patience;
pub use connection::memory_ledger::Bounds;
pub use dispatch::Dispatcher;
pub use header::Header;
pub use history_watchers::Watchers;
pub use limits::Limits;
pub use local::{LocalPart, LocalRequest, answer_locally};
pub use openapi::descriptions::Descriptions;
pub use permission::Permission;
pub use route::{Found, Interface};
pub use row::Row;
pub use state::AppState;

use self::openapi::descriptions::Description;
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
    /// Their OpenAPI documents.
    pub fn descriptions(&self) -> Descriptions {
        let of = |interface: &Interface| Description::new(interface.document.clone());
        Descriptions { management: of(&self.management), client: of(&self.client), overkeep: of(&self.overkeep), fabric: of(&self.fabric) }
    }

    /// All of them, finished.
    ///
    /// # Errors
    /// A row is wrong in itself, which is a defect.
    pub fn new() -> Result<Self> {
        Ok(Self {
            management: api::management::routes().finish()?,
            client: api::client::routes().finish()?,
            overkeep: api::overkeep::routes().finish()?,
            fabric: api::fabric::routes().finish()?,
        })
    }
}
