//! The filter language: answers recorded from the original controller, the deliberate differences,
//! and properties that hold for any text and any condition.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails, in its helpers as well"
)]

extern crate overkeep_query as query;

mod faults;
mod lists;
mod nesting;
mod operators;
mod properties;
mod rows;
mod values;
