//! Caches for answers.

pub(crate) mod json_cache;
pub(crate) mod network_tokens;
pub(crate) mod routers;
