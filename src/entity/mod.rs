//! The kinds: one file per kind with the content of its records, the fields for filters, its references and its
//! response format.
//!
//! Not here: storage, HTTP, and further effects of changes (`change/`). Start at [`Entity`] in `entity_trait.rs`, then
//! `config.rs`, the smallest complete kind. Invariant: the facts of a kind are defined here and nowhere else.

/// The list of kinds. It declares the file and the type of each, and `every_kind!`, which gives the list to another macro.
///
/// `written` says that nothing else happens when records of the kind change. What happens with those of another kind is the
/// `impl Lifecycle` in `change/`. Kinds with neither are created by code alone.
macro_rules! kinds {
    ($($file:ident::$kind:ident $(: $how:ident)?),* $(,)?) => {
        $(
            #[allow(unreachable_pub, reason = "a kind and its view are public, whether the façade for tests names them or not")]
            pub(crate) mod $file;
            #[allow(unreachable_pub, reason = "the façade for tests re-exports most of them")]
            pub use $file::$kind;
        )*
        macro_rules! every_kind {
            ($to:ident) => {
                $to! { $($kind $(: $how)?),* }
            };
        }
        pub(crate) use every_kind;
    };
}

kinds! {
    api_session::ApiSession,
    api_token::ApiToken,
    auth_policy::AuthPolicy,
    authenticator::Authenticator,
    ca::Ca,
    config::Config: written,
    config_type::ConfigType,
    controller::Controller,
    edge_router::EdgeRouter,
    edge_router_policy::EdgeRouterPolicy: written,
    enrollment::Enrollment,
    external_jwt_signer::ExternalJwtSigner,
    identity::Identity,
    identity_type::IdentityType,
    mfa::Mfa: written,
    posture_check::PostureCheck,
    posture_check_type::PostureCheckType,
    service::Service: written,
    service_edge_router_policy::ServiceEdgeRouterPolicy: written,
    service_policy::ServicePolicy: written,
    session::Session,
    session_certificate::SessionCertificate: written,
    terminator::Terminator,
    transit_router::TransitRouter,
}

mod access_change;
mod amount;
pub mod builtin;
mod edge_router_view;
pub(crate) mod endpoint;
pub(crate) mod endpoint_info;
mod entity_trait;
pub mod external_id_claim;
mod facts;
mod facts_ext;
mod field;
pub mod history;
mod hosting;
pub(crate) mod identity_parts;
mod identity_state;
mod identity_view;
mod kind;
mod links;
mod logged;
mod noun;
mod policy;
pub(crate) mod posture_demand;
mod record;
mod reference;
mod reference_to;
mod roles;
pub(crate) mod router_enrollment;
pub(crate) mod tombstone;
pub(crate) mod transit_router_view;
mod value;
mod version_range;
mod words;

pub(crate) use access_change::Named;
pub use access_change::{AccessChange, Counted, PairCount, Pairs};
pub use amount::{Amount, AmountLimit};
pub(crate) use api_session::AuthQuery;
pub use api_session::LoginBasis;
pub use authenticator::Credential;
pub(crate) use endpoint_info::{EnvInfo, SdkInfo};
pub use entity_trait::Entity;
pub use external_id_claim::ExternalIdClaim;
pub(crate) use facts::VersionInfo;
pub use facts::{Facts, Link as RouterLink};
pub use facts_ext::FactsExt;
pub(crate) use facts_ext::missing;
pub use field::Field;
pub(crate) use field::Index;
pub(crate) use history::HistoryEntry;
pub use history::{Author, HistoryRow};
pub(crate) use hosting::Precedence;
pub(crate) use identity::{ClaimedKind, IdentityKind};
pub use kind::{AnyRecord, Disk, Epoch, Kind, Stateful, Stored};
pub(crate) use links::{EntityRef, Links};
pub use logged::{Action, Logged};
pub(crate) use noun::{plural, singular};
pub use policy::{PolicyType, Semantic};
pub use posture_demand::Demand;
pub(crate) use posture_demand::{OperatingSystem, OsType, PostureKind};
pub use record::{Id, Record};
pub(crate) use reference::IdPath;
pub use reference::{OnDelete, Reference};
pub(crate) use roles::NamedRole;
pub use roles::Roles;
pub(crate) use service::{PostureQueries, PostureQuery};
pub use value::{Document, Tags};
pub(crate) use version_range::{Version, VersionRange};
pub use words::{Seen, Words};
pub(crate) use words::{field_of, filterable, is_id};
