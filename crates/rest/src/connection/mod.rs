//! REST connections: guards before the HTTP libraries, HTTP/2, and the memory held for clients.

pub(crate) mod acceptor;
pub(crate) mod answer_stream;
pub(crate) mod chunked_body;
pub(crate) mod connection_shared;
pub(crate) mod guard;
pub(crate) mod http2;
mod http2_request;
pub(crate) mod memory_ledger;
pub(crate) mod request_heads;
pub(crate) mod request_target;
pub(crate) mod response_body;
pub(crate) mod waiters;
