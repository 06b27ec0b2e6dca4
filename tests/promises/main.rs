//! What Overkeep promises, in one test binary: a module for each promise.

mod access;
mod architecture;
mod configuration;
mod contract;
mod crash;
mod credentials;
mod engine;
mod harness;
mod host;
mod lost_updates;
mod pki;
mod posture;
mod query;
mod samples;
mod start;
mod store;
mod stories;
mod verbs;
