//! The interfaces: their route tables and functions.

pub(crate) mod client;
pub(crate) mod common;
pub(crate) mod fabric;
pub(crate) mod management;
pub(crate) mod overkeep;
