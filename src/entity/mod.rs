//! The vocabulary: one file per kind, saying what a record of it consists of, what can be filtered, what refers to what and
//! what goes on the wire.
//!
//! Not here: storage, HTTP, what else happens when a record changes (`change/`). Start reading at [`Entity`] in `kind.rs`, then at
//! `config.rs`, the smallest whole kind. Invariant: what is said of a kind is said here and nowhere else.

pub mod api_session;
pub mod auth_policy;
pub mod authenticator;
pub mod builtin;
pub mod ca;
pub mod config;
pub mod config_type;
pub mod edge_router;
pub mod edge_router_policy;
pub mod enrollment;
pub mod external_id_claim;
pub mod external_jwt_signer;
mod facts;
mod field;
mod hosting;
pub mod identity;
pub mod identity_parts;
mod identity_state;
pub mod identity_type;
mod kind;
pub mod mfa;
mod policy;
pub mod posture_check;
pub mod posture_check_type;
pub mod posture_demand;
mod record;
mod reference;
pub mod router_enrollment;
pub mod service;
pub mod service_edge_router_policy;
pub mod service_policy;
pub mod session;
pub mod session_certificate;
pub mod terminator;
pub mod transit_router;
mod value;
mod version_range;

pub use api_session::{ApiSession, AuthQuery};
pub use auth_policy::AuthPolicy;
pub use authenticator::{Authenticator, Credential};
pub use ca::Ca;
pub use config::Config;
pub use config_type::ConfigType;
pub use edge_router::EdgeRouter;
pub use edge_router_policy::EdgeRouterPolicy;
pub use enrollment::Enrollment;
pub use external_id_claim::ExternalIdClaim;
pub use external_jwt_signer::ExternalJwtSigner;
pub use facts::{Facts, FactsExt, Link as RouterLink};
pub use field::{Asked, Field, Index, Seen, Words, field_of, filterable, is_id};
pub use hosting::Precedence;
pub use identity::{ClaimedKind, Identity, IdentityKind};
pub use identity_parts::{EnvInfo, SdkInfo};
pub use identity_type::IdentityType;
pub use kind::{AnyRecord, Disk, Entity, Kind, Stored};
pub use mfa::Mfa;
pub use policy::{PolicyType, Semantic};
pub use posture_check::PostureCheck;
pub use posture_check_type::PostureCheckType;
pub use posture_demand::{Demand, OperatingSystem, OsType, PostureKind};
pub use record::{Id, Record};
pub use reference::{OnDelete, Reference};
pub use service::{PostureQueries, PostureQuery, Service};
pub use service_edge_router_policy::ServiceEdgeRouterPolicy;
pub use service_policy::ServicePolicy;
pub use session::Session;
pub use session_certificate::SessionCertificate;
pub use terminator::Terminator;
pub use transit_router::TransitRouter;
pub use value::{Document, EntityRef, Link, Links, NamedRole, Roles, Tags};
pub use version_range::{Version, VersionRange};
