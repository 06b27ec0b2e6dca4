//! The interfaces: their route tables, and the functions that stand in them.

pub(crate) mod client;
pub(crate) mod common;
pub(crate) mod fabric;
pub(crate) mod management;
pub(crate) mod overkeep;
