//! Overkeep: the controller of a private overlay network in one binary and one file.
//!
//! # The map
//!
//! A room imports only from rooms below it; `tests/promises/architecture.rs` refuses an arrow that runs up.
//!
//! | floor | rooms |
//! |---|---|
//! | the program | [`cli`] → [`controller`] (puts everything together) → [`jobs`] (periodic work) and [`admin_socket`] (what the owner of the host may do) |
//! | the interfaces | [`http`]: route tables, arguments, answers, the dispatcher · [`network`] the data plane: channels of SDKs, circuits · [`listener`] one port for both |
//! | subjects | [`authentication`] who is calling · [`enrollment`] how a key becomes an identity · [`posture`] what endpoints report · [`explain`] why somebody may or may not · [`maintenance`] the file as a whole |
//! | rules | [`change`] every write and what follows from it · [`access`] who may use what |
//! | records | [`store`] one file, one writer, indexes, lists · [`online`] who is connected |
//! | vocabulary | [`entity`] one file per kind: shapes and facts |
//! | tools | [`query`] [`pki`] [`frame`] [`schema`] [`error`] [`clock`] [`config`] [`logging`] [`priority`] |
//!
//! # A filtered list, from the socket and back
//!
//! `GET /edge/management/v1/services?filter=name="web"` arrives in `http/dispatch.rs`, which looks up the session
//! (`authentication/sessions.rs`) and finds the row of the table in `http/api/management/mod.rs`. The row's function takes its arguments
//! (`http/extractor.rs`), and only then is the session compared with the row's permission. The filter is parsed against the words of the kind
//! (`query/`, `entity/field.rs`).
//! `store/list/plan.rs` sees that `name` is unique, asks the index instead of reading all records, and answers a page. Each record is shown by
//! its kind's `view` with what it is for the caller around it (`http/api/common/service.rs`), and `http/answer.rs` wraps it up.
//!
//! # A policy change, until a client sees it
//!
//! `PATCH /service-policies/{id}` is `http/crud.rs`: the body was checked against the schema that the kind's struct derives, and is merged
//! into the stored draft. `change/mod.rs` runs the kind's rules and hands the record to the store, whose one writer thread commits it
//! with whatever else waits (`store/tx/writer.rs`). After the fsync the writer tells its listeners in order: `access/feed.rs` changes a few bits of
//! the engine. Only then is the caller answered. The next `GET /current-api-session/service-updates` of an identity compares what it
//! may do now with what it might when it last asked, says so if they differ, and the client fetches its services again. Behind their backs
//! `access/access_audit.rs` finds the change in the history, and adds who gained and who lost what by it.
//!
//! # How the odd kinds fit
//!
//! * **Polymorphic** (posture checks): one struct with a flattened, tagged enum; `Disk::Text` keeps it as JSON; the derived schema is a `oneOf`.
//! * **Two shapes that no request writes** (authenticators): an ordinary enum in the record, no `JsonSchema`, rows and bodies of its own.
//! * **Client and management views**: what a record is by itself is `Entity::view`; what it is for somebody stands around it in `http/`.
//! * **Half-authenticated callers**: a session with open `AuthQuery`s; rows say `Partial` where that is enough.
//! * **Bodies that are no JSON**: an argument type that describes its media types, such as in `http/api/client/enroll.rs`.

pub mod access;
pub mod admin_socket;
pub mod authentication;
pub mod change;
pub mod cli;
pub mod clock;
pub mod config;
pub mod controller;
pub mod enrollment;
pub mod entity;
pub mod error;
pub mod explain;
pub mod frame;
pub mod http;
pub mod jobs;
pub mod listener;
pub mod logging;
pub mod maintenance;
pub mod network;
pub mod online;
pub mod pki;
pub mod posture;
pub mod priority;
pub mod query;
pub mod schema;
pub mod store;
