//! The reply to a request that failed. `error_row.rs` has its status, code, message and cause.

use model::error::{Error, Refusal};

use super::{
    answer::Reply,
    envelope::Meta,
    error_row::{ErrorRow, error_row, shortened, violation},
    error_shape::{ApiError, Cause, ErrorEnvelope},
    header::Header,
};

/// Shortens a cause. The sent value is repeated in full, as clients expect.
fn shortened_cause(mut cause: Cause) -> Cause {
    match &mut cause {
        Cause::Field { reason: text, .. }
        | Cause::Data { message: text, .. }
        | Cause::Nested { message: text, .. } => *text = shortened(text),
        Cause::Posture { message: text, .. } | Cause::Other { message: text, .. } => {
            *text = shortened(text)
        }
    }
    cause
}

/// The reply for an error. Internal details go to the log only.
pub(crate) fn reply(error: &Error, request_id: &str) -> Reply {
    let ErrorRow {
        status,
        code,
        message,
        mut cause,
    } = error_row(error);
    if let Some(Cause::Nested {
        request_id: inner, ..
    }) = &mut cause
    {
        *inner = request_id.to_owned();
    }
    if status >= 500 {
        tracing::error!(%error, code, "request failed");
    }
    let message = if status == 500 {
        "an unexpected error; see the log entry with this request id".into()
    } else {
        shortened(&message)
    };
    let violations = if let Error::Several(errors) = error {
        errors.iter().map(violation).collect()
    } else {
        Vec::new()
    };
    let error_of = ApiError {
        code: code.into(),
        message,
        request_id: request_id.into(),
        cause: cause.map(shortened_cause),
        violations,
    };
    let envelope = ErrorEnvelope {
        error: error_of,
        meta: Meta::default(),
    };
    let mut reply = Reply::json(status, &envelope).unwrap_or(Reply {
        status,
        media: "application/json",
        body: Vec::new().into(),
        headers: Vec::new(),
    });
    reply
        .headers
        .extend(retry_after(error).map(|seconds| (Header::RetryAfter.name(), seconds.to_string())));
    reply
}

/// The value of `retry-after` in seconds; `None` if a retry is not useful.
fn retry_after(error: &Error) -> Option<u32> {
    match error {
        Error::Busy { retry_after } => Some(*retry_after),
        Error::Refused(Refusal::RateLimited) => Some(60),
        Error::Refused(Refusal::Timeout | Refusal::TooSlow) | Error::Storage(_) => Some(2),
        _ => None,
    }
}
