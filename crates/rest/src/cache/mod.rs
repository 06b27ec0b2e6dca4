//! Caches of data in answers: records as JSON, the routers of sessions, and the network token.

pub(crate) mod json_cache;
pub(crate) mod network_tokens;
pub(crate) mod routers;
