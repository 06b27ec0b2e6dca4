//! The edge router inside the controller: what SDKs are promised on their channels.

mod bind;
mod dial;
mod faults;
mod flow;
mod hello;
mod memory_bounds;
mod port;
mod property;
mod relay;
mod revocation;
mod scene;
#[path = "../../sdk/mod.rs"]
mod sdk;
mod trace;
