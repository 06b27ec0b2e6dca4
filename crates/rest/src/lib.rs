//! The REST API.
//!
//! Here: the route tables of the interfaces (`api/management/mod.rs`, `api/client/mod.rs`: read
//! them first; `api/overkeep/mod.rs` has what only this controller offers, `api/fabric/mod.rs` the
//! lists for operator tools), the argument and answer types of their functions (`extractor.rs`,
//! `answer.rs`), the generic operations (`crud.rs`), writes and previews of them
//! (`change_mode.rs`), the way of a request to its answer (`serve.rs`), and which row it leads to
//! (`dispatcher.rs`). Not here: rules of kinds, storage, rights. Invariant: every fact about an
//! operation is stated once, in its row; routing, documents, validation and the permission check
//! use it.
//!
//! Bodies that are not JSON are arguments like any other (`api/client/enroll.rs`). Partly
//! authenticated callers are `Permission::Partial`. The members of a service that depend on the
//! caller are in `api/common/service.rs`, the others in `entity/`.

#![warn(unreachable_pub)]

mod answer;
mod api;
mod body;
mod body_schema;
mod cache;
mod call;
mod change_mode;
mod conditional;
mod connection;
mod cors;
mod crud;
mod dispatcher;
mod envelope;
mod error;
mod error_row;
mod error_shape;
mod extractor;
mod fixed_members;
mod gzip;
mod handler;
mod header;
mod health;
mod hidden_members;
mod history_readers;
mod last_hour;
mod limits;
mod list_body;
mod list_part;
mod listing;
mod local;
mod logins;
mod media_type;
pub mod metrics_listener;
mod network_document;
mod normalize;
mod openapi;
mod page;
mod permission;
mod preview;
mod redaction;
mod request_caller;
mod request_checks;
mod route;
mod row;
mod send;
mod serve;
mod state;
mod token_scope;
mod unknown_members;

pub use cache::{json_cache::JsonCache, network_tokens::NetworkTokens, routers::RouterCache};
pub use connection::acceptor::{RestListener, connection_handlers};
pub use connection::guard::ConnectionLimits;
pub use connection::memory_ledger::MemoryBounds;
pub use dispatcher::Dispatcher;
pub use header::Header;
pub use history_readers::HistoryReaders;
pub use last_hour::LastHour;
pub use limits::{RequestLimits, target_bound};
pub use local::answer_locally;
pub use local::{LocalPart, LocalRequest};
pub use logins::Logins;
pub use metrics_listener::MetricsFormat;
pub use network_document::{
    defaults::default_of, kind::DeclaredKind, kinds::DeclaredKinds, names::with_references,
};
pub use openapi::descriptions::{Descriptions, LazyDocument};
pub use permission::Permission;
pub use route::{Interface, RouteMatch, normal_path};
pub use row::Row;
pub use state::{AppState, Build, Caches, Instance, RouterNetwork, Upkeep};

use model::error::Result;

use self::{
    api::overkeep::api_tokens, openapi::descriptions::Description, token_scope::ScopeNames,
};

/// Every interface of the controller.
pub struct Interfaces {
    pub management: Interface,
    pub client: Interface,
    /// Extensions of this controller.
    pub overkeep: Interface,
    /// Routers, links and circuits, for operator tools.
    pub fabric: Interface,
}

impl Interfaces {
    /// Their OpenAPI documents.
    pub fn descriptions(&self) -> Descriptions {
        let of = |interface: &Interface| Description::new(interface.document.clone());
        Descriptions {
            management: of(&self.management),
            client: of(&self.client),
            overkeep: of(&self.overkeep),
            fabric: of(&self.fabric),
        }
    }

    /// The kinds of network documents.
    pub fn declared(&self) -> DeclaredKinds {
        declared_in(&self.management)
    }

    /// Builds all interfaces.
    ///
    /// # Errors
    /// A row is invalid, which is a defect.
    pub fn new() -> Result<Self> {
        let management = api::management::routes().finish()?;
        let (client, fabric) = (
            api::client::routes().finish()?,
            api::fabric::routes().finish()?,
        );
        let overkeep = api::overkeep::routes(declared_in(&management));
        let others = [&management, &client, &fabric]
            .into_iter()
            .flat_map(Interface::rows);
        let words = ScopeNames::of(others.chain(overkeep.rows()));
        let overkeep = overkeep
            .mount(|routes| api_tokens::creation(routes, &words))
            .finish()?;
        Ok(Self {
            management,
            client,
            overkeep,
            fabric,
        })
    }
}

fn declared_in(management: &Interface) -> DeclaredKinds {
    DeclaredKinds::new(
        management
            .rows()
            .filter_map(|row| row.operation.declared.clone()),
    )
}
