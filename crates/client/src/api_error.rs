//! The error in an answer of a controller.

use model::outbound::HttpAnswer;
use serde::Deserialize;

/// The most characters of a text that is kept.
const MOST: usize = 1 << 10;

/// Why a controller refused a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    /// In capitals, such as `UNAUTHORIZED`; empty if the answer is not that of a controller.
    pub(crate) code: String,
    /// For people, cut.
    pub(crate) reason: String,
}

#[derive(Deserialize)]
struct Envelope {
    error: Described,
}

#[derive(Deserialize)]
struct Described {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
    cause: Option<Cause>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cause {
    field: Option<String>,
    reason: Option<String>,
    message: Option<String>,
}

impl ApiError {
    /// The error of an answer whose status says that there is one.
    pub(crate) fn of(answer: &HttpAnswer) -> Self {
        let Ok(Envelope { error }) = serde_json::from_slice(&answer.body) else {
            return Self {
                code: String::new(),
                reason: format!("status {}", answer.status),
            };
        };
        let cause = error.cause.and_then(|cause| {
            let text = cause.reason.or(cause.message)?;
            Some(match cause.field.filter(|field| !field.is_empty()) {
                Some(field) => format!("{field}: {text}"),
                None => text,
            })
        });
        let reason = match cause.filter(|cause| *cause != error.message) {
            Some(cause) => format!("{} ({}): {cause}", error.message, error.code),
            None => format!("{} ({})", error.message, error.code),
        };
        Self {
            code: error.code.chars().take(MOST).collect(),
            reason: reason.chars().take(MOST).collect(),
        }
    }
}
