//! The network of routers: what the built-in router and routers in other processes have in common.
//!
//! Not here: channels of SDKs and the relay of data (`built_in_router/`), control channels and their
//! messages (`control_channel/`), rights (`access/`, `posture/`).
//!
//! Start with `session_authorizer.rs`, which decides whether a session grants its right at a router,
//! and with `select.rs`, which chooses among hosts.
//!
//! Invariant: nothing here knows of which kind a router is.

mod authorizing_record;
mod circuit_quota;
mod dynamic_cost;
mod id_generator;
mod identity_quota;
mod info;
mod live_terminators;
mod network;
mod owner_index;
mod paths;
mod request_failure;
mod review_triggers;
mod select;
mod session_authorizer;
mod terminator_records;

pub(crate) use self::authorizing_record::{AuthorizingIndex, AuthorizingRecord};
pub(crate) use self::circuit_quota::CircuitPermit;
pub(crate) use self::identity_quota::IdentityQuota;
pub(crate) use self::info::{
    ChannelEndInfo, ChannelInfo, CircuitInfo, EndInfo, LinkInfo, SentInfo, UNMEASURED,
};
pub(crate) use self::live_terminators::{HostedService, LiveTerminator, NotAdded};
pub(crate) use self::network::Network;
pub(crate) use self::owner_index::OwnerIndex;
pub(crate) use self::paths::{Edge, Graph, Node, Path, Paths};
pub(crate) use self::request_failure::{FailureReason, RequestFailure};
pub(crate) use self::review_triggers::{PendingReviews, PendingSet, ReviewTrigger};
pub(crate) use self::select::{Strategy, Weight, choose};
pub(crate) use self::session_authorizer::{Grant, PresentedSession, SessionAuthorizer, unreadable};
pub(crate) use self::terminator_records::EDGE;
