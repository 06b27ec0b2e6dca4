//! The list of kinds. A new kind is a file here, a line in this list, a row in a route table and a
//! sample in the tests (docs/contributing.md, "A kind of record").

/// The list of kinds. It declares the file and the type of each, and `every_kind!`, which gives the
/// list to another macro.
///
/// `written` gives the kind the default `Lifecycle`. A kind without it has an `impl Lifecycle` in
/// `change/` with its ids, rules and effects. A kind with neither is written by code alone, never
/// by a request.
macro_rules! kinds {
    ($($file:ident::$kind:ident $(: $how:ident)?),* $(,)?) => {
        $(
            pub mod $file;
            pub use $file::$kind;
        )*
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
