//! The kinds: one file per kind with the content of its records, the fields for filters, its
//! references and its response format.
//!
//! Not here: storage, HTTP, and further effects of changes (`change/`). Start at [`Entity`] in
//! `entity_trait.rs`, then `kinds/config.rs`, the smallest complete kind. Invariant: the facts of a
//! kind are defined here and nowhere else.

mod access_change;
mod amount;
pub mod builtin;
mod edge_router_view;
pub(crate) mod endpoint_info;
mod entity_trait;
mod escalation;
pub mod external_id_claim;
mod field;
mod filter_names;
pub mod history;
mod hosting;
pub(crate) mod identity_parts;
mod identity_state;
mod identity_view;
mod kind;
mod kinds;
mod links;
mod logged;
mod lookup;
mod noun;
mod policy;
mod posture_matching;
pub(crate) mod posture_requirement;
mod record;
mod reference;
mod reference_to;
mod roles;
pub(crate) mod router_enrollment;
pub(crate) mod signer_url;
pub(crate) mod tombstone;
pub(crate) mod transit_router_view;
mod typed_lookup;
pub(crate) mod unmatchable;
mod value;
mod version_range;

pub(crate) use access_change::Named;
pub use access_change::{AccessChange, Counted, PairCount, Pairs};
pub use amount::{Amount, AmountLimit};
pub(crate) use endpoint_info::{EnvInfo, SdkInfo};
pub use entity_trait::Entity;
pub use escalation::{ESCALATIONS, Escalation};
pub use external_id_claim::ExternalIdClaim;
pub use field::Field;
pub(crate) use field::Index;
pub use filter_names::{FilterNames, RecordTarget};
pub(crate) use filter_names::{field_of, filterable, is_id};
pub(crate) use history::HistoryEntry;
pub use history::{Author, HistoryRow};
pub(crate) use hosting::Precedence;
pub use kind::{AnyRecord, Epoch, Kind, SpecEncoding, Stateful, Stored};
pub(crate) use kinds::api_session::AuthQuery;
pub use kinds::api_session::LoginBasis;
pub use kinds::authenticator::Credential;
pub(crate) use kinds::identity::{ClaimedKind, IdentityKind};
pub(crate) use kinds::service::{PostureQueries, PostureQuery};
#[allow(
    unreachable_pub,
    reason = "kinds and their views are public, whether the façade for tests names them or not"
)]
pub use kinds::*;
pub(crate) use links::{EntityRef, HalLinks};
pub use logged::{Action, HistoryClass, Logged};
pub(crate) use lookup::VersionInfo;
pub use lookup::{Lookup, RouterInfo};
pub(crate) use noun::{kebab, plural, singular};
pub use policy::{PolicyType, Semantic};
pub use posture_requirement::PostureRequirement;
pub(crate) use posture_requirement::{OperatingSystem, OsType, PostureKind};
pub use record::{Id, Record};
pub(crate) use reference::IdPath;
pub use reference::{OnDelete, Reference};
pub(crate) use roles::NamedRole;
pub use roles::Roles;
pub use typed_lookup::TypedLookup;
pub(crate) use typed_lookup::missing;
pub use value::{Document, Tags};
pub(crate) use version_range::{Version, VersionRange};
