//! The built-in edge router: what it promises to SDKs on their channels.

mod bind;
mod boundary;
mod changed_messages;
mod clock_and_restart;
mod counters;
mod dial;
mod dial_bounds;
mod explained;
mod faults;
mod flow;
mod hello;
mod injection;
mod libziti;
mod memory_bounds;
mod memory_shares;
pub mod outage;
mod people;
mod port;
mod property;
mod refusals;
mod relay;
mod revocation;
mod revocation_load;
mod revocation_time;
pub mod scene;
#[path = "../../sdk/mod.rs"]
pub mod sdk;
mod shares;
mod stampede;
mod steady_traffic;
mod strategies;
mod trace;
