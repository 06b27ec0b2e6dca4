//! Overkeep: the controller of a private overlay network in one binary and one file.
//!
//! # The map
//!
//! All top-level modules are private. [`main`] is the program, and [`testing`] names what tests, benches and examples use.
//! `docs/architecture.md` lists the modules in their layers. A module imports only from modules in lower layers and, without a cycle, from
//! modules in its own layer. `tests/promises/architecture.rs` fails on any other import.
//!
//! # A filtered list, from the socket and back
//!
//! `GET /edge/management/v1/services?filter=name="web"` arrives in `http/dispatch.rs`, which looks up the session
//! (`authentication/sessions.rs`) and finds the row of the table in `http/api/management/mod.rs`. The row's function takes its arguments
//! (`http/extractor.rs`); then the session is compared with the row's permission. The filter is parsed and checked against the fields of
//! the kind (`query/`, `entity/field.rs`).
//! `store/list/plan.rs` sees that `name` is unique, reads the index instead of all records, and returns a page. Each record is shown by its
//! kind's `view`; `http/api/common/service.rs` adds what depends on the caller, and `http/answer.rs` adds the envelope.
//!
//! # A policy change, until a client sees it
//!
//! `PATCH /service-policies/{id}` is handled by `http/crud.rs`: the body is checked against the schema that the kind's struct derives, and
//! merged into the stored draft. `change/records.rs` runs the kind's rules and passes the record to the store, whose one writer thread
//! commits it together with other waiting writes (`store/tx/writer.rs`). After the fsync the writer calls its listeners in order:
//! `access/feed.rs` changes a few bits of the engine. The caller is answered only after that. The next `GET
//! /current-api-session/service-updates` of an identity compares its present services with those of its last request; if they differ, the
//! client fetches its services again. In the background `access/access_audit.rs` finds the change in the history and adds who gained and
//! who lost which right.
//!
//! # How unusual kinds fit
//!
//! * **Polymorphic** (posture checks): one struct with a flattened, tagged enum; `SpecEncoding::Text` keeps it as JSON; the derived schema is a `oneOf`.
//! * **Two shapes that no request writes** (authenticators): an ordinary enum in the record, no `JsonSchema`, rows and bodies of its own.
//! * **Client and management views**: `Entity::view` shows what does not depend on the caller; `http/` adds what does.
//! * **Partly authenticated callers**: a session with open `AuthQuery`s; rows with the permission `Partial` accept such sessions.
//! * **Bodies that are not JSON**: an argument type that describes its media types, as in `http/api/client/enroll.rs`.

// Items that only this crate uses are `pub(crate)`. Tests, benches and the program export nothing, so the lint is set only here.
#![warn(unreachable_pub)]

mod access;
mod admin_socket;
mod authentication;
mod built_in_router;
mod change;
mod cli;
mod clock;
mod config;
mod control_channel;
mod controller;
mod enrollment;
mod entity;
mod error;
mod expiring;
mod explain;
mod frame;
mod http;
mod jobs;
mod listener;
mod logging;
mod maintenance;
mod metrics;
mod online;
mod outbound;
mod pki;
mod posture;
mod priority;
mod query;
mod schema;
mod store;
pub mod testing;

/// The program: runs the command of this process.
pub fn main() -> std::process::ExitCode {
    cli::main(controller::run)
}
