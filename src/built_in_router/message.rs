//! The messages between SDKs and a router: content types, header keys, and the messages that the
//! router sends.

use serde_json::json;

use crate::{
    frame::{Builder, Frame, content, key as common},
    hosting::DialFault,
};

/// Content types of SDK channels.
pub mod kind {
    pub const CONNECT: i32 = 60783;
    pub const STATE_CONNECTED: i32 = 60784;
    pub const STATE_CLOSED: i32 = 60785;
    pub const DATA: i32 = 60786;
    pub const DIAL: i32 = 60787;
    pub const DIAL_SUCCESS: i32 = 60788;
    pub const DIAL_FAILED: i32 = 60789;
    pub const BIND: i32 = 60790;
    pub const UNBIND: i32 = 60791;
    pub const UPDATE_BIND: i32 = 60794;
    pub const HEALTH_EVENT: i32 = 60795;
    pub const TRACE_ROUTE: i32 = 60796;
    pub const TRACE_ROUTE_RESPONSE: i32 = 60797;
    /// Only from the router. From an SDK this number means [`UPDATE_TOKEN`], because some versions
    /// send that message with it.
    pub const BIND_SUCCESS: i32 = 60800;
    pub const UPDATE_TOKEN_SUCCESS: i32 = 60801;
    pub const UPDATE_TOKEN_FAILURE: i32 = 60802;
    pub const UPDATE_TOKEN: i32 = 60803;
    pub const XGRESS_PAYLOAD: i32 = 1100;
    pub const XGRESS_ACK: i32 = 1101;
    pub const XGRESS_CONTROL: i32 = 1102;
    pub const XGRESS_CLOSE: i32 = 1103;
}

/// Header keys of SDK channels. Values are u32 unless stated otherwise.
pub mod key {
    pub const CONNECTION: i32 = 1000;
    pub const SESSION_TOKEN: i32 = 1002;
    /// For end-to-end encryption; passed on unchanged.
    pub const PUBLIC_KEY: i32 = 1003;
    /// u16, in the first two bytes.
    pub const COST: i32 = 1004;
    /// One byte: 0 default, 1 required, 2 failed.
    pub const PRECEDENCE: i32 = 1005;
    pub const INSTANCE: i32 = 1006;
    pub const INSTANCE_SECRET: i32 = 1007;
    pub const CALLER: i32 = 1008;
    /// Not passed on: text or one byte, depending on the SDK.
    pub const CRYPTO_METHOD: i32 = 1009;
    /// The number of a data message, for logs.
    pub const DATA_SEQUENCE: i32 = 1001;
    /// The UUID of a data message, 16 bytes.
    pub const UUID: i32 = 128;
    /// Flags of data messages, passed on unchanged.
    pub const FLAGS: i32 = 1010;
    pub const APP_DATA: i32 = 1011;
    /// In a Bind: a flag that asks the router to assign connection ids; in a Dial: the assigned id.
    pub const ROUTER_CONNECTION: i32 = 1012;
    /// Flag.
    pub const HEALTH_PASSED: i32 = 1013;
    pub const ERROR_CODE: i32 = 1014;
    /// u64.
    pub const TRACE_TIME: i32 = 1015;
    pub const TRACE_HOPS: i32 = 1016;
    pub const TRACE_HOP_TYPE: i32 = 1017;
    pub const TRACE_HOP_ID: i32 = 1018;
    pub const TRACE_REQUEST: i32 = 1019;
    pub const TRACE_ERROR: i32 = 1020;
    pub const LISTENER: i32 = 1021;
    /// Flag. In a Bind: the SDK waits for BindSuccess; in the router's answer to a hello: the
    /// router sends it.
    pub const BIND_SUCCESS: i32 = 1024;
    pub const MARKER: i32 = 1025;
    pub const CIRCUIT: i32 = 1026;
    pub const STICKINESS: i32 = 1027;
    /// Flag.
    pub const SDK_FLOW_CONTROL: i32 = 1028;
    pub const CONTROLLER: i32 = 1029;
    pub const ADDRESS: i32 = 1030;
    /// JSON.
    pub const STRUCTURED_ERROR: i32 = 1033;
    pub const DIALER_ID: i32 = 1034;
    pub const DIALER_NAME: i32 = 1035;
    /// Text, in messages with SDK flow control.
    pub const XGRESS_CIRCUIT: i32 = 2256;
    pub const XGRESS_FLAGS: i32 = 2258;
}

/// The bit of [`key::XGRESS_FLAGS`] that marks messages from the host's side.
pub(crate) const FROM_HOST: u32 = 2;

/// What an SDK is to do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    Default = 0,
    /// Try again later: the router is busy.
    TooBusy = 1,
    /// Get a new session.
    StartOver = 2,
    /// Do not try again.
    Never = 3,
}

/// Why a request failed, for the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureReason {
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
    pub fn text(self) -> Option<&'static str> {
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
pub struct RequestFailure {
    /// Not sent to SDKs.
    pub reason: FailureReason,
    pub code: u32,
    pub retry: Retry,
    /// Never empty: some SDKs treat an empty text like [`Failure::invalid_session`].
    pub text: String,
    /// Why the host of a dial was not reached. Not sent to SDKs.
    pub(crate) fault: DialFault,
}

impl RequestFailure {
    pub fn new(code: u32, retry: Retry, text: impl Into<String>) -> Self {
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

    pub fn internal(text: impl Into<String>) -> Self {
        Self::new(1, Retry::Default, text)
    }

    pub fn busy(text: impl Into<String>) -> Self {
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

    pub fn encryption(text: &str) -> Self {
        Self::new(11, Retry::Never, text).with_reason(FailureReason::Encryption)
    }

    pub fn instance(text: impl Into<String>) -> Self {
        Self::new(13, Retry::Never, text).with_reason(FailureReason::Instance)
    }

    /// The right that a connection depends on has ended.
    pub(crate) fn access_denied(text: &str) -> Self {
        Self::new(14, Retry::StartOver, text)
    }

    fn structured(&self) -> String {
        json!({ "message": self.text, "code": self.code, "cause": null, "retryHint": self.retry as u32 }).to_string()
    }
}

/// The answer to an accepted hello.
pub(crate) fn hello_accepted(
    hello: &Frame,
    connection: &str,
    version: &str,
    router: &str,
) -> Frame {
    let answer = Builder::reply(content::RESULT, hello)
        .flag(common::SUCCESS, true)
        .text(common::CONNECTION_ID, connection);
    first(
        answer
            .text(common::VERSION, version)
            .text(common::ID, router)
            .flag(key::BIND_SUCCESS, true)
            .empty(),
    )
}

/// The answer to a rejected hello.
pub(crate) fn hello_rejected(hello: &Frame, text: &str) -> Frame {
    first(
        Builder::reply(content::RESULT, hello)
            .flag(common::SUCCESS, false)
            .body(text.as_bytes()),
    )
}

/// Gives the first message of a channel its sequence number, -1.
fn first(mut frame: Frame) -> Frame {
    frame.set_sequence(-1);
    frame
}

/// The answer to a latency probe or ping.
pub(crate) fn success(to: &Frame) -> Frame {
    Builder::reply(content::RESULT, to)
        .flag(common::SUCCESS, true)
        .empty()
}

/// The answer to an SDK that has a new token for its channel. The token of an API session never
/// changes here, so that only the present one is accepted.
pub(crate) fn token_updated(request: &Frame, present: &str) -> Frame {
    if request.body() == present.as_bytes() {
        return Builder::reply(kind::UPDATE_TOKEN_SUCCESS, request).empty();
    }
    Builder::reply(kind::UPDATE_TOKEN_FAILURE, request)
        .body(b"the token is of another API session, which needs a channel of its own")
}

/// The answer to a successful request about a connection; headers may be added.
pub(crate) fn connected(request: &Frame, connection: u32) -> Builder {
    Builder::reply(kind::STATE_CONNECTED, request).u32(key::CONNECTION, connection)
}

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

/// The message that a connection ended normally.
pub(crate) fn ended(connection: u32, text: &str) -> Frame {
    Builder::new(kind::STATE_CLOSED)
        .u32(key::CONNECTION, connection)
        .body(text.as_bytes())
}

fn closing(builder: Builder, connection: u32, failure: &RequestFailure) -> Frame {
    let builder = builder
        .u32(key::CONNECTION, connection)
        .u32(key::ERROR_CODE, failure.code);
    builder
        .text(key::STRUCTURED_ERROR, &failure.structured())
        .body(failure.text.as_bytes())
}
