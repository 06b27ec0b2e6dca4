//! The messages between SDKs and a router: content types, header keys, and the messages that the
//! router sends.

use crate::frame::{Builder, Frame, content, key as common};

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
pub const FROM_HOST: u32 = 2;

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

/// The answer to an accepted hello.
pub fn hello_accepted(hello: &Frame, connection: &str, version: &str, router: &str) -> Frame {
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
pub fn hello_rejected(hello: &Frame, text: &str) -> Frame {
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
pub fn success(to: &Frame) -> Frame {
    Builder::reply(content::RESULT, to)
        .flag(common::SUCCESS, true)
        .empty()
}

/// The answer to an SDK that has a new token for its channel. The token of an API session never
/// changes here, so that only the present one is accepted.
pub fn token_updated(request: &Frame, present: &str) -> Frame {
    if request.body() == present.as_bytes() {
        return Builder::reply(kind::UPDATE_TOKEN_SUCCESS, request).empty();
    }
    Builder::reply(kind::UPDATE_TOKEN_FAILURE, request)
        .body(b"the token is of another API session, which needs a channel of its own")
}

/// The answer to a successful request about a connection; headers may be added.
pub fn connected(request: &Frame, connection: u32) -> Builder {
    Builder::reply(kind::STATE_CONNECTED, request).u32(key::CONNECTION, connection)
}

/// The message that a connection ended normally.
pub fn ended(connection: u32, text: &str) -> Frame {
    Builder::new(kind::STATE_CLOSED)
        .u32(key::CONNECTION, connection)
        .body(text.as_bytes())
}
