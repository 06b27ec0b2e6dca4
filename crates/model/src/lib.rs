//! What the controller speaks of: the kinds of records ([`entity`]), errors and refusals
//! ([`error`]), time ([`clock`]), the keys of the configuration ([`config`]), JSON Schema
//! ([`schema`]), characters that nobody sees ([`hidden_text`]), metrics ([`metrics`]), and requests
//! to other servers ([`outbound`]).
//!
//! Not here: where records are stored, who may use what, and what a change does. Start at
//! [`entity`]. Invariant: nothing in this crate knows a file of data, a session or a listener.

#![warn(unreachable_pub)]

pub mod clock;
pub mod config;
pub mod entity;
pub mod error;
pub mod hidden_text;
pub mod metrics;
pub mod outbound;
pub mod schema;
