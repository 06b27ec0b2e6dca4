//! Every write goes through here: create, edit and delete for any kind, and what else happens then.
//!
//! Not here: who asked and whether they may (`http/`), how it is stored (`store/`). Start reading at [`Change`]; what a kind does
//! beyond being written is in the file of its name, as its [`Lifecycle`]; the registry says which kinds do nothing.
//! Invariant: a record that breaks a rule of its kind is never stored, and everything a change brings about is in the same
//! transaction.

pub mod addresses;
mod api_session;
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
pub use first_start::{Administrator, Filling, first_start, is_unseen, renew_config_types, replace_unseen, seal, seen, stored_seal};
pub use lifecycle::Lifecycle;
pub use registry::KINDS;
pub use sealed_keys::SealedKeys;
