//! The routers that SDKs dial and host through. `network` has what all of them share: circuits,
//! terminators, links, paths and rights. Above it are the two kinds: the router in this process
//! (`built_in_router`), and those in other processes, which are connected by their control channels
//! (`control_channel`).
//!
//! Not here: sockets and TLS, the encoding of messages (the crate `wire`), who may use a service
//! (the crate `policy`), and what administrators see of it over HTTP. Start at
//! [`built_in_router::Router`] and [`control_channel::Control`]. Invariant: both identities of an
//! open circuit have the right to it at present.

#![warn(unreachable_pub)]

pub mod built_in_router;
pub mod control_channel;
pub mod network;
mod peer_lines;
