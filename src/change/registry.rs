//! Every kind there is. The store reaches all of them through this list and names none.

use crate::{
    entity::{
        ApiSession, AuthPolicy, Authenticator, Ca, Config, ConfigType, Controller, EdgeRouter, EdgeRouterPolicy, Enrollment,
        ExternalJwtSigner, Identity, IdentityType, Mfa, PostureCheck, PostureCheckType, Service, ServiceEdgeRouterPolicy, ServicePolicy,
        Session, SessionCertificate, Terminator, TransitRouter,
    },
    store::Entry,
};

/// One entry a kind.
pub static KINDS: &[Entry] = &[
    Entry::of::<ApiSession>(),
    Entry::of::<AuthPolicy>(),
    Entry::of::<Authenticator>(),
    Entry::of::<Ca>(),
    Entry::of::<Config>(),
    Entry::of::<ConfigType>(),
    Entry::of::<Controller>(),
    Entry::of::<EdgeRouter>(),
    Entry::of::<EdgeRouterPolicy>(),
    Entry::of::<Enrollment>(),
    Entry::of::<ExternalJwtSigner>(),
    Entry::of::<Identity>(),
    Entry::of::<IdentityType>(),
    Entry::of::<Mfa>(),
    Entry::of::<PostureCheck>(),
    Entry::of::<PostureCheckType>(),
    Entry::of::<Service>(),
    Entry::of::<ServiceEdgeRouterPolicy>(),
    Entry::of::<ServicePolicy>(),
    Entry::of::<Session>(),
    Entry::of::<SessionCertificate>(),
    Entry::of::<Terminator>(),
    Entry::of::<TransitRouter>(),
];
