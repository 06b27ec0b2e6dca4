//! Content types of the control channel. They are grouped by direction: `R` is the router, `C` the
//! controller.

// R to C.
pub const FAULT: i32 = 1004;
pub const METRICS: i32 = 1007;
pub const INSPECT_RESPONSE: i32 = 1014;
pub const ROUTE_RESULT: i32 = 1022;
pub const CIRCUIT_CONFIRMATION: i32 = 1034;
pub const ROUTER_LINKS: i32 = 1035;
pub const VERIFY_ROUTER: i32 = 1036;
pub const REMOVE_TERMINATORS: i32 = 1038;
pub const QUIESCE: i32 = 1039;
pub const DEQUIESCE: i32 = 1040;
pub const VALIDATE_TERMINATORS_RESPONSE: i32 = 1042;
pub const DECOMMISSION: i32 = 1043;
pub const UPDATE_ROUTER_INTERFACES: i32 = 1052;
pub const CLIENT_HELLO: i32 = 20001;
pub const API_SESSION_HEARTBEAT: i32 = 20203;
pub const REQUEST_RESYNC: i32 = 20204;
pub const UPDATE_TERMINATOR: i32 = 20209;
pub const VALIDATE_SESSIONS: i32 = 20213;
pub const CREATE_TERMINATOR: i32 = 20216;
pub const CREATE_CIRCUIT: i32 = 20218;
pub const TUNNEL_CIRCUIT_V2: i32 = 20220;
pub const EXTEND_ENROLLMENT: i32 = 20302;
pub const EXTEND_ENROLLMENT_VERIFY: i32 = 20303;
pub const TUNNEL_API_SESSION: i32 = 20400;
pub const TUNNEL_CIRCUIT: i32 = 20402;
pub const TUNNEL_LIST_SERVICES: i32 = 20404;
pub const TUNNEL_TERMINATOR: i32 = 20406;
pub const TUNNEL_UPDATE_TERMINATOR: i32 = 20408;
pub const TUNNEL_REMOVE_TERMINATOR: i32 = 20410;
pub const TUNNEL_TERMINATOR_V2: i32 = 20413;
pub const CONNECT_EVENTS: i32 = 20415;

/// Whether only edge routers send this type: it is about SDKs at a router, or about the router as a
/// client of services.
pub fn is_of_edge_routers(content_type: i32) -> bool {
    matches!(
        content_type,
        CLIENT_HELLO
            | API_SESSION_HEARTBEAT
            | REQUEST_RESYNC
            | UPDATE_TERMINATOR
            | VALIDATE_SESSIONS
            | CREATE_TERMINATOR
            | CREATE_CIRCUIT
            | TUNNEL_CIRCUIT_V2
            | TUNNEL_API_SESSION..=TUNNEL_TERMINATOR_V2 | CONNECT_EVENTS
    )
}

// C to R.
pub const ROUTE: i32 = 1005;
pub const UNROUTE: i32 = 1006;
pub const INSPECT_REQUEST: i32 = 1013;
pub const SETTINGS: i32 = 1020;
pub const VALIDATE_TERMINATORS: i32 = 1041;
pub const PEER_STATE_CHANGES: i32 = 1050;
pub const SERVER_HELLO: i32 = 20000;
pub const ERROR: i32 = 20002;
pub const SESSION_REMOVED: i32 = 20102;
pub const API_SESSION_ADDED: i32 = 20200;
pub const API_SESSION_UPDATED: i32 = 20201;
pub const API_SESSION_REMOVED: i32 = 20202;
pub const UPDATE_TERMINATOR_RESPONSE: i32 = 20210;
pub const CREATE_TERMINATOR_RESPONSE: i32 = 20217;
pub const CREATE_CIRCUIT_RESPONSE: i32 = 20219;
pub const TUNNEL_CIRCUIT_V2_RESPONSE: i32 = 20221;
pub const ENROLLMENT_CERTIFICATES: i32 = 20301;
pub const TUNNEL_API_SESSION_RESPONSE: i32 = 20401;
pub const TUNNEL_CIRCUIT_RESPONSE: i32 = 20403;
pub const TUNNEL_SERVICES: i32 = 20405;
pub const TUNNEL_TERMINATOR_RESPONSE: i32 = 20407;
pub const TUNNEL_UPDATE_TERMINATOR_RESPONSE: i32 = 20409;
pub const TUNNEL_REMOVE_TERMINATOR_RESPONSE: i32 = 20411;
pub const TUNNEL_TERMINATOR_V2_RESPONSE: i32 = 20414;
pub const DATA_STATE: i32 = 20500;
pub const CHANGE_SET: i32 = 20501;
