//! What real SDKs, routers and controllers sent, read and written again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails, in its helpers as well"
)]

extern crate overkeep_wire as wire;

mod control_messages;
mod frames;
#[path = "../../../../tests/promises/control/recordings.rs"]
mod recordings;
