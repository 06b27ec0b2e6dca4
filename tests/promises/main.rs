//! What Overkeep promises, in one test binary: a module for each promise.

mod configuration;
mod engine;
mod pki;
mod query;
mod start;
