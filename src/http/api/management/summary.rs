//! The number of records of each kind.

use std::collections::BTreeMap;

use crate::{
    entity::{
        ApiSession, AuthPolicy, Authenticator, Ca, Config, ConfigType, Controller, EdgeRouter, EdgeRouterPolicy, Enrollment,
        ExternalJwtSigner, Identity, IdentityType, Mfa, PostureCheck, PostureCheckType, Service, ServiceEdgeRouterPolicy, ServicePolicy,
        Session, SessionCertificate, Terminator, TransitRouter,
    },
    error::Result,
    http::{answer::Shown, call::Call},
};

/// Names that clients expect for kinds that this controller does not have; their count is 0.
const ABSENT: [&str; 2] = ["eventualEvents", "revocations"];

/// GET /summary
pub async fn summary(call: Call) -> Result<Shown<BTreeMap<&'static str, i64>>> {
    call.store.read(|tx| {
        let (services, edge_routers) = (tx.count::<Service>()?, tx.count::<EdgeRouter>()?);
        let counts = [
            ("apiSessionCertificates", tx.count::<SessionCertificate>()?),
            ("apiSessions", tx.count::<ApiSession>()?),
            ("authPolicies", tx.count::<AuthPolicy>()?),
            ("authenticators", tx.count::<Authenticator>()?),
            ("cas", tx.count::<Ca>()?),
            ("configs", tx.count::<Config>()?),
            ("configTypes", tx.count::<ConfigType>()?),
            ("controllers", tx.count::<Controller>()?),
            ("edgeRouterPolicies", tx.count::<EdgeRouterPolicy>()?),
            ("enrollments", tx.count::<Enrollment>()?),
            ("externalJwtSigners", tx.count::<ExternalJwtSigner>()?),
            ("identities", tx.count::<Identity>()?),
            ("identityTypes", tx.count::<IdentityType>()?),
            ("mfas", tx.count::<Mfa>()?),
            ("postureChecks", tx.count::<PostureCheck>()?),
            ("postureCheckTypes", tx.count::<PostureCheckType>()?),
            ("routers", edge_routers + tx.count::<TransitRouter>()?),
            ("routers.edge", edge_routers),
            ("serviceEdgeRouterPolicies", tx.count::<ServiceEdgeRouterPolicy>()?),
            ("servicePolicies", tx.count::<ServicePolicy>()?),
            ("services", services),
            ("services.edge", services),
            ("sessions", tx.count::<Session>()?),
            ("terminators", tx.count::<Terminator>()?),
        ];
        let absent = ABSENT.into_iter().map(|name| (name, 0));
        Ok(Shown(counts.into_iter().chain(absent).map(|(name, count)| (name, i64::try_from(count).unwrap_or(i64::MAX))).collect()))
    })
}
