//! All writes of records: create, edit and delete for any kind, and their further effects.
//!
//! Not here: who the caller is and what it may do (the crate `rest`), and storage (`store`). Start
//! at [`Change`]. The rules of a kind are its [`Lifecycle`], in the file of its name;
//! `entity/kinds/mod.rs` marks the kinds without rules. Invariant: a record that breaks a rule of
//! its kind is never stored, and all effects of a change are in the same transaction.

pub mod addresses;
mod api_session;
mod api_token;
mod auth_policy;
pub mod authenticator;
pub mod built_in_router;
pub mod ca;
pub mod certificates;
mod changes;
mod config_type;
mod draft;
pub mod edge_router;
pub mod enrollment;
mod external_jwt_signer;
mod first_start;
pub mod identity;
mod ids;
pub mod imported;
mod lifecycle;
mod posture_check;
mod records;
mod registry;
mod sealed_keys;
mod session;
pub mod session_certificate;
mod terminator;
mod transit_router;

pub use certificates::{Certificates, UnusableFiles};
pub use changes::{Change, ChangeContext, Changes};
pub use draft::Draft;
pub use first_start::{
    Administrator, NewFile, PasswordRules, first_start, is_unseen, note_seen, renew_config_types,
    replace_unseen, seal, stored_seal,
};
pub use lifecycle::Lifecycle;
pub use registry::KINDS;
pub use sealed_keys::SealedKeys;
