//! Overkeep: the controller of a private overlay network in one binary and one file.
//!
//! # The map
//!
//! All top-level modules are private. [`main`] is the program, and [`testing`] names what tests,
//! benches and examples use. `docs/architecture.md` lists the modules in their layers. A module
//! imports only from modules in lower layers and, without a cycle, from modules in its own layer.
//! `tests/promises/architecture.rs` fails on any other import.
//!
//! The same page follows requests through the code: a filtered list, a policy change, a log-in with
//! a certificate, an enrollment, a snapshot and a dial.
//!
//! # How unusual kinds fit
//!
//! * **Polymorphic** (posture checks): one struct with a flattened, tagged enum;
//!   `SpecEncoding::Text` keeps it as JSON; the derived schema is a `oneOf`.
//! * **Two shapes that no request writes** (authenticators): an ordinary enum in the record, no
//!   `JsonSchema`, rows and bodies of its own.
//! * **Client and management views**: `Entity::view` shows what does not depend on the caller;
//!   the crate `rest` adds what does.
//! * **Partly authenticated callers**: a session with open `AuthQuery`s; rows with the permission
//!   `Partial` accept such sessions.
//! * **Bodies that are not JSON**: an argument type that describes its media types, as in
//!   `rest/src/api/client/enroll.rs`.

// Items that only this crate uses are `pub(crate)`. Tests, benches and the program export nothing,
// so that the lint is set in libraries only.
#![warn(unreachable_pub)]

mod admin_socket;
mod cli;
mod controller;
mod jobs;
mod logging;
pub mod testing;

/// The program: runs the command of this process.
pub fn main() -> std::process::ExitCode {
    cli::main(controller::run)
}
