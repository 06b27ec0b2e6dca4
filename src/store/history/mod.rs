//! The history: rows that are only added, each chained to the one before, and how it is read.

pub(crate) mod history_query;
pub(crate) mod log;
pub(crate) mod packing;
