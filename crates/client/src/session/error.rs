//! Why a log-in, a dial or a binding failed.

use crate::{connection::DialError, controller::RequestError, routers::RouterError};

/// Why a log-in, a dial or a binding failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("the identity needs a second factor: {0}")]
    SecondFactor(String),
    #[error(
        "the identity file holds no certificate, and other ways to log in are not supported yet"
    )]
    NoCertificate,
    #[error("there is no service {0} that the identity may use")]
    NoService(String),
    #[error("the identity may not {right} the service {service}")]
    NoRight {
        right: &'static str,
        service: String,
    },
    #[error(transparent)]
    Router(#[from] RouterError),
    #[error("{service}: {error}")]
    Dial { service: String, error: DialError },
}

impl SessionError {
    /// Whether the session for the service, or the API session below it, may have ended.
    pub(super) fn may_be_outdated(&self) -> bool {
        match self {
            Self::Dial { error, .. } => error.may_be_outdated(),
            // Routers refuse a channel of an API session that has ended.
            Self::Router(_) => true,
            _ => false,
        }
    }
}
