//! The history: rows that are only appended, each chained to the one before; how they are stored,
//! checked and read.

pub(crate) mod chain;
pub(crate) mod history_query;
pub(crate) mod log;
pub(crate) mod packing;
pub(crate) mod verification;
pub(crate) mod visits;
