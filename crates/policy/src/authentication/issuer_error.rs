//! Why an issuer of tokens gave nothing usable when it was asked for its keys, for what it
//! publishes about itself, or for a token.

use std::sync::Arc;

use model::outbound::HttpError;
use tokio::task::JoinError;

/// The maximum length of a reason in the log, in characters.
const MAX_REASON: usize = 200;

/// The texts are for the log. Those about a token tell nothing of the answer, which may hold it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IssuerError {
    /// No request is sent to this URL.
    #[error("{0}")]
    Url(&'static str),
    #[error("{0}")]
    Http(HttpError),
    #[error("status {0}")]
    Status(u16),
    /// The answer is no key set.
    #[error("{0}")]
    KeySet(pki::Error),
    /// The answer is no OpenID Connect metadata.
    #[error("{0}")]
    Metadata(Arc<serde_json::Error>),
    #[error("a URL is longer than {0} bytes")]
    LongUrl(usize),
    #[error("the authorization endpoint has a fragment")]
    Fragment,
    /// The answer of the token endpoint is not the JSON that it must be.
    #[error("the answer cannot be read at column {column} of line {line}")]
    TokenAnswer { column: usize, line: usize },
    #[error("the id token does not have the nonce of the log-in")]
    Nonce,
    /// The answer of the token endpoint lacks this member.
    #[error("the answer has no {0}")]
    NoToken(&'static str),
    /// The task that asked panicked.
    #[error("{0}")]
    Stopped(Arc<JoinError>),
}

impl From<HttpError> for IssuerError {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}

impl From<JoinError> for IssuerError {
    fn from(stopped: JoinError) -> Self {
        Self::Stopped(Arc::new(stopped))
    }
}

/// A reason for the log, which an issuer may have made long.
pub(super) fn shortened(error: &IssuerError) -> String {
    error.to_string().chars().take(MAX_REASON).collect()
}
