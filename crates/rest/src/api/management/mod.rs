//! The management interface, for administrators.

mod api_session;
mod authenticator;
mod ca;
pub(crate) mod database;
mod edge_router;
mod enrollment;
mod identity;
mod posture;
mod roles;
mod service;
mod summary;
mod trace;
pub(crate) mod transit_router;

use model::entity::{
    ApiSession, AuthPolicy, Authenticator, Ca, Config, ConfigType, EdgeRouter, EdgeRouterPolicy,
    Enrollment, ExternalJwtSigner, Identity, IdentityType, PostureCheck, PostureCheckType, Service,
    ServiceEdgeRouterPolicy, ServicePolicy, Terminator,
};

use super::common;
use crate::{
    crud,
    permission::Permission::*,
    route::{CONTRACT, Routes},
};

/// The table of the interface.
pub(crate) fn routes() -> Routes {
    Routes::new("management", "/edge/management/v1", CONTRACT)
        .mount(common::routes)
        .get("/summary", Admin, summary::summary)
        .summary("The number of records of each kind.")
        .get("/openapi.json", Open, common::spec::management)
        .summary("This OpenAPI document.")
        .extension()
        .get("/swagger.json", Open, common::spec::management)
        .summary("This OpenAPI document, under its older name.")
        .extension()
        .get("/sessions/{id}/route-path", User, common::session::route_path)
        .summary("The routers of a service session's traffic.")
        // settings
        .list::<ConfigType>(Admin)
        .detail::<ConfigType>(Admin.session_only())
        .create::<ConfigType>(Admin.session_only())
        .edit::<ConfigType>(Admin.session_only())
        .linked::<ConfigType, Config>(Admin.session_only())
        .crud::<Config>(Admin)
        .get("/configs/{id}/services", Admin, service::of_config)
        .summary("The services that have a config.")
        .extension()
        // services
        .get("/services", Admin, service::list)
        .get("/services/{id}", Admin, service::detail)
        .create::<Service>(Admin)
        .edit::<Service>(Admin)
        .linked::<Service, Config>(Admin)
        .related::<Service, EdgeRouter>(Admin)
        .get("/services/{id}/identities", Admin, service::identities)
        .related::<Service, ServiceEdgeRouterPolicy>(Admin)
        .related::<Service, ServicePolicy>(Admin)
        .linked::<Service, Terminator>(Admin)
        .get("/service-role-attributes", Admin, roles::of_services)
        .read::<Terminator>(Admin)
        .create::<Terminator>(Admin)
        .edit::<Terminator>(Admin.session_only())
        // identities
        .read_by_roles::<Identity>(Admin)
        .post("/identities", Admin, identity::create)
        .summary("Creates an identity, and the enrollment for its credential.")
        .refuses(&[404])
        .put("/identities/{id}", Admin, crud::replace::<Identity>)
        .patch("/identities/{id}", Admin, identity::patch)
        .remove::<Identity>(Admin)
        .post("/identities/{id}/disable", Admin.session_only(), identity::disable)
        .summary("Disables an identity, for some minutes or until it is enabled, and ends its sessions.")
        .post("/identities/{id}/enable", Admin.session_only(), identity::enable)
        .summary("Enables a disabled identity.")
        .delete("/identities/{id}/mfa", Admin.session_only(), identity::remove_mfa)
        .summary("Removes an identity's one-time codes, for a user who lost the device.")
        .linked::<Identity, Authenticator>(Admin.session_only())
        .linked::<Identity, Enrollment>(Admin.session_only())
        .related::<Identity, EdgeRouterPolicy>(Admin)
        .related::<Identity, EdgeRouter>(Admin)
        .related::<Identity, ServicePolicy>(Admin)
        .get("/identities/{id}/services", Admin, service::of_identity)
        .get("/identities/{id}/service-configs", Admin, identity::service_configs)
        .post("/identities/{id}/service-configs", Admin, identity::assign_service_configs)
        .summary("Sets configs that an identity has for services in place of their own.")
        .body_name("serviceConfigs")
        .delete("/identities/{id}/service-configs", Admin, identity::remove_service_configs)
        .summary("Removes an identity's own configs for services; an empty list removes all.")
        .body_name("serviceConfigIdPairs")
        .get("/identities/{id}/policy-advice/{serviceId}", Admin, identity::policy_advice)
        .summary("Whether an identity may use a service, and over which routers.")
        .put("/identities/{id}/trace", Admin.session_only(), trace::set)
        .summary("Traces the traffic of an identity for some time.")
        .get("/identities/{id}/posture-data", Admin, posture::data)
        .summary("What the endpoints of an identity reported.")
        .get("/identities/{id}/failed-service-requests", Admin, posture::failures)
        .summary("The last service requests of an identity that failed posture checks.")
        .get("/identity-role-attributes", Admin, roles::of_identities)
        .read::<IdentityType>(Admin)
        // edge routers
        .read_by_roles::<EdgeRouter>(Admin)
        .create::<EdgeRouter>(Admin)
        .edit::<EdgeRouter>(Admin.session_only())
        .post("/edge-routers/{id}/re-enroll", Admin.session_only(), edge_router::re_enroll)
        .summary("Revokes a router's certificates and creates a new enrollment token for it.")
        .related::<EdgeRouter, EdgeRouterPolicy>(Admin.session_only())
        .related::<EdgeRouter, Identity>(Admin.session_only())
        .related::<EdgeRouter, ServiceEdgeRouterPolicy>(Admin.session_only())
        .get("/edge-routers/{id}/services", Admin.session_only(), service::of_edge_router)
        .get("/edge-router-role-attributes", Admin, roles::of_edge_routers)
        // transit routers, under both of their names
        .mount(|routes| transit_router::routes(routes, "/routers"))
        .mount(|routes| transit_router::routes(routes, "/transit-routers"))
        // policies
        .list::<ServicePolicy>(Admin)
        .detail::<ServicePolicy>(Admin.session_only())
        .create::<ServicePolicy>(Admin.session_only())
        .edit::<ServicePolicy>(Admin.session_only())
        .related::<ServicePolicy, Identity>(Admin.session_only())
        .get("/service-policies/{id}/services", Admin.session_only(), service::of_service_policy)
        .related::<ServicePolicy, PostureCheck>(Admin.session_only())
        .crud::<EdgeRouterPolicy>(Admin)
        .related::<EdgeRouterPolicy, EdgeRouter>(Admin)
        .related::<EdgeRouterPolicy, Identity>(Admin)
        .crud::<ServiceEdgeRouterPolicy>(Admin)
        .related::<ServiceEdgeRouterPolicy, EdgeRouter>(Admin)
        .get("/service-edge-router-policies/{id}/services", Admin, service::of_service_edge_router_policy)
        // posture
        .get("/posture-checks", Admin, crud::list_by_roles::<PostureCheck>)
        .with_charset()
        .detail::<PostureCheck>(Admin)
        .create::<PostureCheck>(Admin)
        .edit::<PostureCheck>(Admin)
        .get("/posture-check-role-attributes", Admin, roles::of_posture_checks)
        .summary("The role attributes of posture checks.")
        .extension()
        .list::<PostureCheckType>(Admin)
        .with_charset()
        .detail::<PostureCheckType>(Admin)
        // credentials
        .get("/api-sessions", Admin, api_session::list)
        .with_charset()
        .get("/api-sessions/{id}", Admin, api_session::detail)
        .remove::<ApiSession>(Admin.session_only())
        .crud::<AuthPolicy>(Admin)
        .crud::<ExternalJwtSigner>(Admin)
        .list::<Authenticator>(Admin)
        .detail::<Authenticator>(Admin.session_only())
        .post("/authenticators", Admin.session_only(), authenticator::create)
        .summary("Creates a credential for an identity without an enrollment.")
        .body_name("authenticator")
        .refuses(&[404, 409])
        .put("/authenticators/{id}", Admin.session_only(), authenticator::replace)
        .summary("Sets the user name and password of an authenticator.")
        .body_name("authenticator")
        .refuses(&[409])
        .patch("/authenticators/{id}", Admin.session_only(), authenticator::patch)
        .summary("Sets the user name or the password of an authenticator.")
        .body_name("authenticator")
        .refuses(&[409])
        .remove::<Authenticator>(Admin.session_only())
        .post("/authenticators/{id}/re-enroll", Admin.session_only(), authenticator::re_enroll)
        .summary("Deletes a credential and creates the enrollment for a new one.")
        .refuses(&[409])
        .post("/authenticators/{id}/request-extend", Admin.session_only(), authenticator::request_extension)
        .summary("Asks the holder of a certificate to renew it: sessions that it opens say so until it is renewed.")
        .body_name("requestExtendAuthenticator")
        .refuses(&[409])
        .extension()
        .list::<Ca>(Admin)
        .detail::<Ca>(Admin.session_only())
        .create::<Ca>(Admin.session_only())
        .put("/cas/{id}", Admin.session_only(), crud::replace::<Ca>)
        .patch("/cas/{id}", Admin.session_only(), ca::patch)
        .remove::<Ca>(Admin.session_only())
        .post("/cas/{id}/verify", Admin.session_only(), ca::verify)
        .summary("Verifies a certificate authority by a certificate that it issued with the verification token as common name.")
        .refuses(&[409])
        .get("/cas/{id}/jwt", Admin.session_only(), ca::token)
        .summary("The signed token with which clients enroll by a certificate of the certificate authority.")
        .read::<Enrollment>(Admin)
        .post("/enrollments", Admin, enrollment::create)
        .summary("Creates an enrollment with a one-time token for an identity.")
        .body_name("enrollment")
        .refuses(&[404, 409])
        .remove::<Enrollment>(Admin)
        .post("/enrollments/{id}/refresh", Admin, enrollment::refresh)
        .summary("Renews the token and expiry of an enrollment; the previous token becomes invalid.")
        .body_name("refresh")
        // the data file
        .mount(database::routes)
}
