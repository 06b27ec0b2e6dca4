//! A router that dials and hosts services itself.

use model::entity::{ApiSession, ConfigType, Id, Identity, Record};
use parking_lot::Mutex;
use wire::control::tunnel::CreateApiSessionResponse;

/// What a router with a tunneler acts with: the identity that has the id and the name of the
/// router.
pub(crate) struct Tunneler {
    pub api_session: Record<ApiSession>,
    pub identity: Id<Identity>,
    /// The types of the configs that it wants to see, or [`ConfigType::ALL`].
    pub config_types: Vec<Id<ConfigType>>,
    /// The API session as the router is told of it; `None` if the router knows it.
    pub untold: Mutex<Option<CreateApiSessionResponse>>,
}
