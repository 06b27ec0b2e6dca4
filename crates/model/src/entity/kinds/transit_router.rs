//! Transit routers: they carry traffic between edge routers, and nobody connects to them. The facts
//! of the kind and its view for administrators are in `transit_router_view.rs`, which uses kinds
//! that refer to routers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{EdgeRouter, Id, Record, Stateful, edge_router::State};

/// A router that only forwards traffic.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransitRouter {
    /// Unique among all routers, edge and transit.
    pub name: String,
    /// Its share of the cost of a path.
    #[serde(default)]
    #[schemars(with = "Option<u16>")]
    pub cost: u16,
    /// Whether paths may only begin or end at it.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub no_traversal: bool,
    /// Whether it must not connect.
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    pub disabled: bool,
}

impl Stateful for TransitRouter {
    type State = State;
}

impl TransitRouter {
    /// An edge router as a transit router, for lists and filters over both.
    pub fn of_edge_router(router: Record<EdgeRouter>) -> Record<Self> {
        let Record {
            id,
            created_at,
            updated_at,
            tags,
            is_system,
            spec,
            state,
        } = router;
        let EdgeRouter {
            name,
            cost,
            no_traversal,
            disabled,
            ..
        } = spec;
        let spec = Self {
            name,
            cost,
            no_traversal,
            disabled,
        };
        Record {
            id: Id::from_text(id.into_text()),
            created_at,
            updated_at,
            tags,
            is_system,
            spec,
            state,
        }
    }
}
