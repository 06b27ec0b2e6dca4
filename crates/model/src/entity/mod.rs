//! The kinds: one file per kind with the content of its records, the fields for filters, its
//! references and its response format.
//!
//! Not here: storage, HTTP, and further effects of changes (`change/` of the crate `policy`). Start
//! at [`Entity`] in `entity_trait.rs`, then `kinds/config.rs`, a short kind. Invariant: the facts of a kind are
//! defined here and nowhere else.

mod access_change;
mod amount;
pub mod builtin;
mod edge_router_view;
pub mod endpoint_info;
mod entity_trait;
mod escalation;
pub mod external_id_claim;
mod field;
mod filter_names;
pub mod history;
mod history_filter;
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
pub mod posture_requirement;
mod record;
mod reference;
mod reference_to;
mod roles;
pub(crate) mod router_enrollment;
pub mod signer_url;
pub mod tombstone;
pub mod transit_router_view;
mod typed_lookup;
pub mod unmatchable;
mod value;
mod version_range;

pub use access_change::{AccessChange, Counted, Named, PairCount, Pairs};
pub use amount::{Amount, AmountLimit};
pub use endpoint_info::{EnvInfo, SdkInfo};
pub use entity_trait::Entity;
pub use escalation::{ESCALATIONS, Escalation};
pub use external_id_claim::ExternalIdClaim;
pub use field::{Field, Index};
pub use filter_names::{FilterNames, RecordTarget, field_of, filterable, is_id};
pub use history::{Author, HistoryEntry, HistoryRow};
pub use history_filter::HistoryWords;
pub use hosting::Precedence;
pub use kind::{AnyRecord, Epoch, Kind, SpecEncoding, Stateful, Stored};
pub use kinds::api_session::{AuthQuery, LoginBasis};
pub use kinds::authenticator::Credential;
pub use kinds::identity::{ClaimedKind, IdentityKind};
pub use kinds::service::{PostureQueries, PostureQuery};
pub use kinds::*;
pub use links::{EntityRef, HalLinks};
pub use logged::{Action, HistoryClass, Logged};
pub use lookup::{Lookup, RouterInfo, VersionInfo};
pub use noun::{kebab, plural, singular};
pub use policy::{PolicyType, Semantic};
pub use posture_requirement::{OperatingSystem, OsType, PostureKind, PostureRequirement};
pub use record::{Id, Record};
pub use reference::{IdPath, OnDelete, Reference};
pub(crate) use roles::NamedRole;
pub use roles::Roles;
pub use typed_lookup::{TypedLookup, missing};
pub use value::{Document, Tags};
pub use version_range::{Version, VersionRange};
