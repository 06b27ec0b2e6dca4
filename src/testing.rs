//! What tests, benches and examples may use of the crate, by module. Nothing else is visible
//! outside of it, so that the compiler finds code that nobody uses.
//!
//! Add a name only for a test that needs it. This module is no interface for other programs, and
//! any release may change it.

pub mod access {
    pub use policy::access::{
        Access, AccessAudit, Delta, Engine, MatchRule, Policy, PolicyEntityKind, PolicyKind, Right,
    };
}
pub mod admin_socket {
    pub use crate::admin_socket::{AdminContext, Command, Outcome, request, socket};
}
pub mod authentication {
    pub use policy::authentication::{
        Attempt, Codes, FailureCount, Passwords, Requester, Sessions, Tokens, codes,
    };
}
pub mod change {
    pub use policy::change::{
        Administrator, Certificates, ChangeContext, Changes, Draft, KINDS, Lifecycle, NewFile,
        PasswordRules, SealedKeys, certificates, enrollment, first_start, stored_seal,
    };
}
pub mod cli {
    pub use crate::cli::{CommandError, act, api, run};
}
pub mod clock {
    pub use model::clock::{CalendarTime, Clock, Timestamp};
}
pub mod config {
    pub use model::config::{
        Address, CodeConfig, Config, Format, KeySetConfig, Log, MemberLimits, PasswordConfig,
        SessionConfig, Snapshots, Span, TokenConfig,
    };
}
pub mod controller {
    pub use crate::controller::{Controller, NotStarted, drill, host, start};
}
pub mod entity {
    pub use model::entity::{
        AccessChange, Action, Amount, AmountLimit, AnyRecord, ApiSession, ApiToken, AuthPolicy,
        Authenticator, Author, Ca, Config, ConfigType, Controller, Counted, Credential, Document,
        ESCALATIONS, EdgeRouter, EdgeRouterPolicy, EndpointReport, Enrollment, Entity, Epoch,
        Escalation, ExternalIdClaim, ExternalJwtSigner, Field, FilterNames, HistoryClass,
        HistoryRow, Id, Identity, Kind, Logged, LoginBasis, Lookup, Mfa, OnDelete, PairCount,
        Pairs, PolicyType, PostureCheck, PostureRequirement, Record, RecordTarget, Reference,
        Roles, RouterInfo, Semantic, Service, ServiceEdgeRouterPolicy, ServicePolicy, Session,
        SessionCertificate, SpecEncoding, Stateful, Stored, Tags, Terminator, TransitRouter,
        TypedLookup, builtin, external_id_claim, history,
    };
    pub mod api_session {
        pub use model::entity::api_session::State;
    }
    pub mod auth_policy {
        pub use model::entity::auth_policy::Updb;
    }
    pub mod enrollment {
        pub use model::entity::enrollment::Method;
    }
    pub mod external_jwt_signer {
        pub use model::entity::external_jwt_signer::TargetToken;
    }
    pub mod mfa {
        pub use model::entity::mfa::{CodePurpose, UsedCode};
    }
}
pub mod error {
    pub use model::error::{Error, Refusal, Result};
}
pub mod http {
    pub use rest::{
        Header, Interface, Interfaces, LocalPart, LocalRequest, Permission, RouteMatch, Row,
        normal_path,
    };
}
pub mod logging {
    pub use crate::logging::{changeable, subscriber};
}
pub mod maintenance {
    pub use maintenance::{Maintenance, Schedule, Scrub, Work, offline, restore, snapshot_proof};
    pub use policy::expiring::overdue;
}
pub mod built_in_router {
    pub use fabric::built_in_router::{Router, TrafficInfo};
    pub use fabric::network::ChannelPeer;
}
pub mod posture {
    pub use policy::posture::{
        Evidence, IdentityPosture, Posture, Response, SessionMfaState, Trigger, evaluation,
    };
}
pub mod store {
    pub use store::{
        Cache, Candidates, DeleteRule, DependencyRecorder, Event, HistoryAnchor, IndexCode,
        KindEntry, ListPlan, NEWEST, OpenError, OpenStore, Options, Phase, Progress, Read, Report,
        Retention, Scope, Store, Tx, Unreadable, beside, decode, encode, index_code,
    };
}
