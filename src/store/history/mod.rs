//! The history: rows that are only appended, each chained to the one before; how they are stored and read.

pub(crate) mod history_query;
pub(crate) mod log;
pub(crate) mod packing;
