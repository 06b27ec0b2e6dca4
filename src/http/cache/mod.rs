//! What answers are made of, kept in memory.

pub(crate) mod json_cache;
pub(crate) mod routers;
