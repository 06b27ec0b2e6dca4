//! Overkeep: the controller of a private overlay network in one binary and one file.

pub mod access;
pub mod authentication;
pub mod change;
pub mod cli;
pub mod clock;
pub mod config;
pub mod controller;
pub mod enrollment;
pub mod entity;
pub mod error;
pub mod http;
pub mod logging;
pub mod network;
pub mod pki;
pub mod query;
pub mod schema;
pub mod store;
pub mod upkeep;
