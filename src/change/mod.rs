//! All writes of records: create, edit and delete for any kind, and their further effects.
//!
//! Not here: who the caller is and what it may do (`http/`), and storage (`store`). Start at
//! [`Change`]. The rules of a kind are its [`Lifecycle`], in the file of its name;
//! `entity/kinds/mod.rs` marks the kinds without rules. Invariant: a record that breaks a rule of
//! its kind is never stored, and all effects of a change are in the same transaction.

pub(crate) mod addresses;
mod api_session;
mod api_token;
mod auth_policy;
pub(crate) mod authenticator;
pub(crate) mod built_in_router;
pub(crate) mod ca;
pub mod certificates;
mod changes;
mod config_type;
mod draft;
pub(crate) mod edge_router;
pub mod enrollment;
mod external_jwt_signer;
mod first_start;
pub(crate) mod identity;
mod ids;
pub(crate) mod imported;
mod lifecycle;
mod posture_check;
mod records;
mod registry;
mod sealed_keys;
mod session;
pub(crate) mod session_certificate;
mod terminator;
mod transit_router;

pub use certificates::Certificates;
pub(crate) use certificates::UnusableFiles;
pub(crate) use changes::Change;
pub use changes::{ChangeContext, Changes};
pub use draft::Draft;
pub use first_start::{Administrator, NewFile, PasswordRules, first_start, stored_seal};
pub(crate) use first_start::{is_unseen, renew_config_types, replace_unseen, seal, seen};
pub use lifecycle::Lifecycle;
pub use registry::KINDS;
pub use sealed_keys::SealedKeys;
