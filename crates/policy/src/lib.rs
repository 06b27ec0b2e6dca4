//! The rules over records. `change` has every write and its effects, and `access` who may use what.
//! Above them are the subjects: who a caller is (`authentication`), how a token becomes a
//! credential (`enrollment`), what endpoints report (`posture`), who hosts a service (`hosting`),
//! why an identity may or may not use one (`explain`), and what ends soon (`expiring`).
//!
//! Not here: where records are stored (the crate `store`), and what a client sends and sees: HTTP,
//! channels of SDKs and routers, commands. Start at [`change::Changes`] for a write, at
//! [`access::Access`] for a right. Invariant: nothing in this crate knows a listener or a message.

#![warn(unreachable_pub)]

pub mod access;
pub mod authentication;
pub mod change;
pub mod enrollment;
pub mod expiring;
pub mod explain;
pub mod hosting;
pub mod posture;
pub mod priority;
