//! The messages that report failures of requests to SDKs.

use wire::{
    frame::{Builder, Frame},
    sdk::{key, kind},
};

use crate::network::RequestFailure;

/// The answer to a rejected request about a connection.
pub(crate) fn refused(request: &Frame, connection: u32, failure: &RequestFailure) -> Frame {
    closing(
        Builder::reply(kind::STATE_CLOSED, request),
        connection,
        failure,
    )
}

/// The message that a connection was ended by a failure.
pub(crate) fn closed(connection: u32, failure: &RequestFailure) -> Frame {
    closing(Builder::new(kind::STATE_CLOSED), connection, failure)
}

fn closing(builder: Builder, connection: u32, failure: &RequestFailure) -> Frame {
    let builder = builder
        .u32(key::CONNECTION, connection)
        .u32(key::ERROR_CODE, failure.code);
    builder
        .text(key::STRUCTURED_ERROR, &failure.structured())
        .body(failure.text.as_bytes())
}
