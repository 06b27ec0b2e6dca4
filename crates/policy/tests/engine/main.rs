//! The access engine answers according to the rules. A naive model, written from the rules, is
//! asked the same questions after random histories, and so is a freshly loaded engine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails, in its helpers as well"
)]

extern crate overkeep_policy as policy;

mod agreement;
mod grants;
mod histories;
mod last_change;
mod properties;
mod rules;
mod watchers;
