//! Links to remote routers, and the ends of circuits that come over them.
//!
//! Remote routers dial the links on the port of the built-in router (`accept.rs`). A circuit that
//! begins or ends at this router and goes over a [`link`] has an [`endpoint`], which numbers,
//! acknowledges and repeats payloads (`send_window.rs`, `receive_buffer.rs`), because a link may
//! lose some; `relay.rs` moves data between it and the SDK. A circuit that goes from one link to
//! another is a [`transit`], which only forwards. Both answer trace routes (`trace_route.rs`). The
//! controller orders the routes (`route.rs`).
//!
//! Invariant: the reader of a link waits for nothing but its peer. A payload that does not fit is
//! dropped, and its sender sends it again.

pub(crate) mod accept;
pub(crate) mod by_circuit;
pub(crate) mod endpoint;
pub(crate) mod link;
mod receive_buffer;
pub(crate) mod relay;
pub(crate) mod route;
mod send_window;
mod trace_route;
pub(crate) mod transit;
