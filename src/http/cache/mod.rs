//! What answers are made of, kept in memory.

pub(crate) mod json_cache;
pub(crate) mod network_tokens;
pub(crate) mod routers;
