//! Why a request of an SDK failed, as it is reported to SDKs, to routers and in the history.

use model::error::Error;
use policy::hosting::DialFault;
use serde_json::json;
use wire::sdk::Retry;

/// Why a request failed, for the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureReason {
    /// The API session has ended, or a second factor is outstanding.
    ApiSession,
    /// The API session has no session with this token.
    Session,
    /// The session is for the other right (dial or bind).
    SessionType,
    /// No policy grants the right.
    Policy,
    /// Posture checks fail.
    Posture,
    /// Identity and service may not both use the router.
    Router,
    /// The service does not exist.
    Service,
    /// The service requires encryption, and one side offers none.
    Encryption,
    /// The instance id or its secret is wrong.
    Instance,
    /// Not a matter of rights: a host failed, the router is busy, or a message is malformed.
    Other,
}

impl FailureReason {
    /// The reason in words; `None` for [`FailureReason::Other`].
    pub(crate) fn text(self) -> Option<&'static str> {
        Some(match self {
            Self::ApiSession => "the API session is not valid",
            Self::Session => "the session is not known",
            Self::SessionType => "the session is of the other type",
            Self::Policy => "no policy grants it",
            Self::Posture => "posture checks fail",
            Self::Router => "identity and service may not both use the router",
            Self::Service => "the service does not exist",
            Self::Encryption => "encryption is required",
            Self::Instance => "the instance id or its secret is wrong",
            Self::Other => return None,
        })
    }
}

/// A failure, as reported to SDKs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestFailure {
    /// Not sent to SDKs.
    pub reason: FailureReason,
    pub code: u32,
    pub retry: Retry,
    /// Never empty: some SDKs treat an empty text like [`RequestFailure::invalid_session`].
    pub text: String,
    /// Why the host of a dial was not reached. Not sent to SDKs.
    pub(crate) fault: DialFault,
}

impl RequestFailure {
    pub(crate) fn new(code: u32, retry: Retry, text: impl Into<String>) -> Self {
        Self {
            reason: FailureReason::Other,
            code,
            retry,
            text: text.into(),
            fault: DialFault::Other,
        }
    }

    /// The same as the failure of an attempt to reach a host.
    pub(crate) fn because(self, fault: DialFault) -> Self {
        Self { fault, ..self }
    }

    fn with_reason(self, reason: FailureReason) -> Self {
        Self { reason, ..self }
    }

    pub(crate) fn internal(text: impl Into<String>) -> Self {
        Self::new(1, Retry::Default, text)
    }

    pub(crate) fn busy(text: impl Into<String>) -> Self {
        Self::new(1, Retry::TooBusy, text)
    }

    pub(crate) fn invalid_api_session() -> Self {
        Self::new(2, Retry::StartOver, "invalid API session").with_reason(FailureReason::ApiSession)
    }

    /// C SDKs compare this text exactly and then create a new session.
    pub(crate) fn invalid_session() -> Self {
        Self::new(3, Retry::StartOver, "Invalid Session").with_reason(FailureReason::Session)
    }

    /// The session no longer grants the right. SDKs get the same answer as for a deleted session:
    /// they create a new one, and the REST API tells them why that fails.
    pub(crate) fn not_permitted(reason: FailureReason) -> Self {
        Self::invalid_session().with_reason(reason)
    }

    pub(crate) fn wrong_type() -> Self {
        Self::new(4, Retry::Never, "the session is of the other type")
            .with_reason(FailureReason::SessionType)
    }

    pub(crate) fn no_router() -> Self {
        Self::new(
            5,
            Retry::StartOver,
            "identity and service may not both use this router",
        )
        .with_reason(FailureReason::Router)
    }

    pub(crate) fn no_service() -> Self {
        Self::new(6, Retry::StartOver, "invalid service").with_reason(FailureReason::Service)
    }

    pub(crate) fn encryption(text: &str) -> Self {
        Self::new(11, Retry::Never, text).with_reason(FailureReason::Encryption)
    }

    pub(crate) fn instance(text: impl Into<String>) -> Self {
        Self::new(13, Retry::Never, text).with_reason(FailureReason::Instance)
    }

    /// The circuit has ended while its host was dialed.
    pub(crate) fn circuit_ended() -> Self {
        Self::access_denied("the circuit has ended in the meantime")
    }

    /// The right that a connection depends on has ended.
    pub(crate) fn access_denied(text: &str) -> Self {
        Self::new(14, Retry::StartOver, text)
    }

    /// The failure as JSON, which newer SDKs read.
    pub(crate) fn structured(&self) -> String {
        json!({ "message": self.text, "code": self.code, "cause": null, "retryHint": self.retry as u32 }).to_string()
    }
}

/// Why a request is not granted.
#[derive(Debug)]
pub(crate) enum Refusal {
    Refused(RequestFailure),
    /// The store cannot be read, so that it is not known.
    Unreadable(Error),
}

impl From<RequestFailure> for Refusal {
    fn from(failure: RequestFailure) -> Self {
        Self::Refused(failure)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Unreadable(error)
    }
}

impl From<Refusal> for RequestFailure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Refused(failure) => failure,
            Refusal::Unreadable(error) => unreadable(error),
        }
    }
}

/// The failure of a request whose right cannot be looked up.
pub(crate) fn unreadable(error: Error) -> RequestFailure {
    tracing::warn!(%error, "a right cannot be looked up");
    RequestFailure::busy("the controller cannot read the store at the moment")
}
