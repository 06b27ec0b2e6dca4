//! The messages between SDKs, routers and controllers, as bytes: numbers, headers and bodies.
//!
//! Not here: sockets, queues, and what a message causes. Start at [`frame`], the form that all of
//! them have. [`sdk`] holds the messages between an SDK and a router, [`link`] those between two
//! routers, and [`control`] those between a router and the controller.
//!
//! Invariant: nothing here reads a clock, a file or a socket, and no bytes of a peer lead to a
//! panic.

#![warn(unreachable_pub)]

pub mod control;
pub mod frame;
pub mod link;
pub mod sdk;
