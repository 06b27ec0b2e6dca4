//! Every kind there is, one line each. The store reaches all of them through this list and names none.

use super::lifecycle::Lifecycle;
use crate::{
    entity::{
        ApiSession, AuthPolicy, Authenticator, Ca, Config, ConfigType, Controller, EdgeRouter, EdgeRouterPolicy, Enrollment,
        ExternalJwtSigner, Identity, IdentityType, Mfa, PostureCheck, PostureCheckType, Service, ServiceEdgeRouterPolicy, ServicePolicy,
        Session, SessionCertificate, Terminator, TransitRouter,
    },
    store::KindEntry,
};

/// The list of kinds. `written` says that nothing happens with records of a kind beyond being written; what happens with those of another
/// kind is the `impl Lifecycle` in the file of its name. Kinds without either are made by code alone.
macro_rules! kinds {
    ($($kind:ident $(: $how:ident)?),* $(,)?) => {
        /// One entry per kind.
        pub static KINDS: &[KindEntry] = &[$(KindEntry::of::<$kind>()),*];
        $($(kinds!(@$how $kind);)?)*
    };
    (@written $kind:ident) => {
        impl Lifecycle for $kind {}
    };
}

kinds! {
    ApiSession,
    AuthPolicy,
    Authenticator,
    Ca,
    Config: written,
    ConfigType,
    Controller,
    EdgeRouter,
    EdgeRouterPolicy: written,
    Enrollment,
    ExternalJwtSigner,
    Identity,
    IdentityType,
    Mfa: written,
    PostureCheck,
    PostureCheckType,
    Service: written,
    ServiceEdgeRouterPolicy: written,
    ServicePolicy: written,
    Session,
    SessionCertificate: written,
    Terminator,
    TransitRouter,
}
