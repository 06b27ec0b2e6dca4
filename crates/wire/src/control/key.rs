//! Header keys of the control channel. The same number may mean something else in another message.

/// Of a hello: `ctrl_pb.Listeners`, the link listeners of a router before version 2.
pub const HELLO_LISTENERS: i32 = 10;
/// Of a hello of version 2: whether its connection is the first one of its group. Earlier versions
/// have other data under this number.
pub const HELLO_IS_FIRST: i32 = 11;
/// Of a hello of version 2: `ctrl_pb.Listeners`.
pub const HELLO_LISTENERS_V2: i32 = 1000;
/// Of a hello of version 2 after the first one of its process, and of the answer: the secret of the
/// group of connections, the same bytes in both.
pub const GROUP_SECRET: i32 = 10;
/// Of the answer to a hello of a router before version 2: the bits of `capability` in
/// `control_channel/hello_values.rs` of the crate `fabric`, big endian.
pub const CAPABILITIES: i32 = 12;
/// The same bits for version 2.
pub const CAPABILITIES_V2: i32 = 1002;

/// Of a circuit request and its answer: a map of numbers to bytes, for the other SDK.
pub const PEER_DATA: i32 = 10;
/// Of a circuit request: the token of the session.
pub const SESSION_TOKEN: i32 = 11;
/// Of a circuit request: SHA-1 of the certificates that the SDK presented, a list of texts.
pub const FINGERPRINTS: i32 = 12;
/// Of a circuit request: the instance that is asked for.
pub const INSTANCE: i32 = 13;
/// Of a circuit request: the token of the API session.
pub const API_SESSION_TOKEN: i32 = 14;
/// Of the answer: the id of the circuit.
pub const CIRCUIT_ID: i32 = 11;
/// Of the answer: the address of the client's end at its router.
pub const INGRESS_ADDRESS: i32 = 12;
/// Of the answer: a map of texts to texts.
pub const TAGS: i32 = 13;

/// In peer data: the key for end-to-end encryption.
pub const PUBLIC_KEY: u32 = 1003;
/// In peer data of a service whose strategy is sticky: the terminator.
pub const STICKINESS: u32 = 1114;

/// Of messages about API sessions: the name of the strategy.
pub const SYNC_STRATEGY: i32 = 1013;
/// Of messages about API sessions: JSON of the place of a message in a full state.
pub const SYNC_STATE: i32 = 1014;
/// Of an error: its code, u32.
pub const ERROR_CODE: i32 = 1014;
/// Of hellos after the first: whether the data model is spoken.
pub const DATA_MODEL: i32 = 1024;

/// Of the result of a route: u32.
pub const ROUTE_ATTEMPT: i32 = 1101;
/// Flag.
pub const ROUTE_SUCCESS: i32 = 1102;
/// Text.
pub const ROUTE_ERROR: i32 = 1103;
/// One byte.
pub const ROUTE_ERROR_CODE: i32 = 1104;
