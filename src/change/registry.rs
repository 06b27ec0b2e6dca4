//! Every kind there is. The store reaches all of them through this list and names none.

use crate::{
    entity::{
        ApiSession, AuthPolicy, Authenticator, Ca, Config, ConfigType, Controller, EdgeRouter, EdgeRouterPolicy, Enrollment,
        ExternalJwtSigner, Identity, IdentityType, Mfa, PostureCheck, PostureCheckType, Service, ServiceEdgeRouterPolicy, ServicePolicy,
        Session, SessionCertificate, Terminator, TransitRouter,
    },
    store::KindEntry,
};

/// One entry a kind.
pub static KINDS: &[KindEntry] = &[
    KindEntry::of::<ApiSession>(),
    KindEntry::of::<AuthPolicy>(),
    KindEntry::of::<Authenticator>(),
    KindEntry::of::<Ca>(),
    KindEntry::of::<Config>(),
    KindEntry::of::<ConfigType>(),
    KindEntry::of::<Controller>(),
    KindEntry::of::<EdgeRouter>(),
    KindEntry::of::<EdgeRouterPolicy>(),
    KindEntry::of::<Enrollment>(),
    KindEntry::of::<ExternalJwtSigner>(),
    KindEntry::of::<Identity>(),
    KindEntry::of::<IdentityType>(),
    KindEntry::of::<Mfa>(),
    KindEntry::of::<PostureCheck>(),
    KindEntry::of::<PostureCheckType>(),
    KindEntry::of::<Service>(),
    KindEntry::of::<ServiceEdgeRouterPolicy>(),
    KindEntry::of::<ServicePolicy>(),
    KindEntry::of::<Session>(),
    KindEntry::of::<SessionCertificate>(),
    KindEntry::of::<Terminator>(),
    KindEntry::of::<TransitRouter>(),
];
