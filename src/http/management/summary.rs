//! How much there is of everything.

use std::collections::BTreeMap;

use crate::{
    entity::{
        ApiSession, AuthPolicy, Authenticator, Ca, Config, ConfigType, EdgeRouter, EdgeRouterPolicy, Enrollment, Identity, IdentityType,
        PostureCheckType, Service, ServiceEdgeRouterPolicy, ServicePolicy, Session, SessionCertificate,
    },
    error::Result,
    http::{answer::Shown, call::Call},
};

/// Kinds that this controller does not have, or not yet: there are none of them.
const ABSENT: [&str; 7] = ["controllers", "eventualEvents", "externalJwtSigners", "mfas", "postureChecks", "revocations", "terminators"];

/// GET /summary
pub async fn summary(call: Call) -> Result<Shown<BTreeMap<&'static str, i64>>> {
    call.store.read(|tx| {
        let (services, routers) = (tx.count::<Service>()?, tx.count::<EdgeRouter>()?);
        let counts = [
            ("apiSessionCertificates", tx.count::<SessionCertificate>()?),
            ("apiSessions", tx.count::<ApiSession>()?),
            ("authPolicies", tx.count::<AuthPolicy>()?),
            ("authenticators", tx.count::<Authenticator>()?),
            ("cas", tx.count::<Ca>()?),
            ("configs", tx.count::<Config>()?),
            ("configTypes", tx.count::<ConfigType>()?),
            ("edgeRouterPolicies", tx.count::<EdgeRouterPolicy>()?),
            ("enrollments", tx.count::<Enrollment>()?),
            ("identities", tx.count::<Identity>()?),
            ("identityTypes", tx.count::<IdentityType>()?),
            ("postureCheckTypes", tx.count::<PostureCheckType>()?),
            ("routers", routers),
            ("routers.edge", routers),
            ("serviceEdgeRouterPolicies", tx.count::<ServiceEdgeRouterPolicy>()?),
            ("servicePolicies", tx.count::<ServicePolicy>()?),
            ("services", services),
            ("services.edge", services),
            ("sessions", tx.count::<Session>()?),
        ];
        let absent = ABSENT.into_iter().map(|name| (name, 0));
        Ok(Shown(counts.into_iter().chain(absent).map(|(name, count)| (name, i64::try_from(count).unwrap_or(i64::MAX))).collect()))
    })
}
