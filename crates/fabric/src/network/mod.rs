//! The network of routers, of which one may be in this process.
//!
//! A dial goes down through these files: `dial.rs` has the session authorized
//! (`session_authorizer.rs`), the circuit counted (`circuit_quota.rs`) and entered in the table of
//! `circuits.rs`, a terminator chosen (`candidates.rs`, over `paths.rs` and `select.rs`), and the
//! routers of the path told (`route.rs`, through the trait in `router.rs`). `reroute.rs` moves
//! circuits whose path was lost, and `circuit_end.rs` ends them.
//!
//! Not here: channels of SDKs and the relay of data (`built_in_router/`), control channels and
//! their messages (`control_channel/`), which both implement `Router`, and rights (the crate
//! `policy`).
//!
//! Invariant: of the router in this process only its id is known here, and what its `Router` does.

mod authorizing_record;
mod candidates;
mod circuit;
mod circuit_end;
mod circuit_quota;
mod circuits;
mod dial;
mod dynamic_cost;
mod enrolled_routers;
mod id_generator;
mod identity_quota;
mod info;
mod link_loss;
mod links;
mod live_terminators;
mod owner_index;
mod passed_on;
mod paths;
mod peer;
pub(crate) mod read;
mod removals;
mod request_failure;
mod reroute;
mod review;
mod review_triggers;
mod route;
mod route_answer;
mod router;
mod select;
mod session_authorizer;
mod shared_state;
mod terminator_records;

pub(crate) use self::authorizing_record::{AuthorizingIndex, AuthorizingRecord};
pub(crate) use self::circuit::{Circuit, Established, NewCircuit};
pub(crate) use self::dial::{DialAnswer, DialFailure, DialRequest, connect_circuit};
pub(crate) use self::enrolled_routers::record_of;
pub(crate) use self::identity_quota::IdentityQuota;
pub use self::info::{
    ChannelEndInfo, ChannelInfo, CircuitInfo, EndInfo, LinkInfo, SentInfo, UNMEASURED,
};
pub(crate) use self::links::{MOVED, Reported, ReportedLink, STATIC_COST, is_text};
pub(crate) use self::live_terminators::{HostedService, LiveTerminator, NotAdded};
pub(crate) use self::passed_on::{TO_CLIENT, TO_HOST, strip, strip_on_link};
pub(crate) use self::paths::{Node, Path};
pub use self::peer::ChannelPeer;
pub(crate) use self::request_failure::{FailureReason, RequestFailure, unreadable};
pub(crate) use self::reroute::{begin as begin_reroute, improve, improve_paths};
pub(crate) use self::review::{finish as finish_reviews, run as review_access};
pub(crate) use self::review_triggers::{PendingSet, ReviewTrigger};
pub(crate) use self::route_answer::{
    PassedOn, RefusalCause, RouteAnswer, RouteFailure, RouteRefusal,
};
pub(crate) use self::router::{Connecting, Egress, LocalDial, RouteOrder, Router};
pub(crate) use self::select::{Strategy, Weight};
pub use self::session_authorizer::SessionAuthorizer;
pub(crate) use self::session_authorizer::{Grant, PresentedSession};
pub use self::shared_state::Network;
pub(crate) use self::terminator_records::EDGE;
