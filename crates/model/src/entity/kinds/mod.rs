//! The list of kinds. A new kind is a file here with its `mod` line, a line in the list, a row in a
//! route table and a sample in the tests (docs/contributing.md, "A kind of record").

pub mod api_session;
pub mod api_token;
pub mod auth_policy;
pub mod authenticator;
pub mod ca;
pub mod config;
pub mod config_type;
pub mod controller;
pub mod edge_router;
pub mod edge_router_policy;
pub mod endpoint_report;
pub mod enrollment;
pub mod external_jwt_signer;
pub mod identity;
pub mod identity_type;
pub mod mfa;
pub mod posture_check;
pub mod posture_check_type;
pub mod service;
pub mod service_edge_router_policy;
pub mod service_policy;
pub mod session;
pub mod session_certificate;
pub mod terminator;
pub mod transit_router;

/// The list of kinds. It re-exports the type of each, and makes `every_kind!`, which gives the list
/// to another macro.
///
/// `written` gives the kind the default `Lifecycle`. A kind without it has an `impl Lifecycle` in
/// `change/` of the crate `policy` with its ids, rules and effects. A kind with neither is written
/// by code alone, never by a request.
macro_rules! kinds {
    ($($file:ident::$kind:ident $(: $how:ident)?),* $(,)?) => {
        $(pub use $file::$kind;)*
        #[macro_export]
        macro_rules! every_kind {
            ($to:ident) => {
                $to! { $($kind $(: $how)?),* }
            };
        }
        pub use every_kind;
    };
}

kinds! {
    api_session::ApiSession,
    api_token::ApiToken,
    auth_policy::AuthPolicy,
    authenticator::Authenticator,
    ca::Ca,
    config::Config: written,
    config_type::ConfigType,
    controller::Controller,
    edge_router::EdgeRouter,
    edge_router_policy::EdgeRouterPolicy: written,
    endpoint_report::EndpointReport,
    enrollment::Enrollment,
    external_jwt_signer::ExternalJwtSigner,
    identity::Identity,
    identity_type::IdentityType,
    mfa::Mfa: written,
    posture_check::PostureCheck,
    posture_check_type::PostureCheckType,
    service::Service: written,
    service_edge_router_policy::ServiceEdgeRouterPolicy: written,
    service_policy::ServicePolicy: written,
    session::Session,
    session_certificate::SessionCertificate: written,
    terminator::Terminator,
    transit_router::TransitRouter,
}
