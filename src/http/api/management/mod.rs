//! The management interface, for administrators.

mod api_session;
mod authenticator;
mod ca;
pub mod database;
mod edge_router;
mod enrollment;
mod identity;
mod posture;
mod roles;
mod service;
mod summary;
mod trace;
pub mod transit_router;

use super::common;
use crate::entity::{
    ApiSession, AuthPolicy, Authenticator, Ca, Config, ConfigType, EdgeRouter, EdgeRouterPolicy, Enrollment, ExternalJwtSigner, Identity,
    IdentityType, PostureCheck, PostureCheckType, Service, ServiceEdgeRouterPolicy, ServicePolicy, Terminator,
};
use crate::http::{
    crud,
    permission::Permission::*,
    route::{CONTRACT, Routes},
};

/// The table of the interface.
pub fn routes() -> Routes {
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
        .crud::<ConfigType>(Admin)
        .linked::<ConfigType, Config>(Admin)
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
        .crud::<Terminator>(Admin)
        // identities
        .read_by_roles::<Identity>(Admin)
        .post("/identities", Admin, identity::create)
        .summary("Creates an identity, and the enrollment for its credential.")
        .refuses(&[404])
        .put("/identities/{id}", Admin, crud::replace::<Identity>)
        .patch("/identities/{id}", Admin, identity::patch)
        .remove::<Identity>(Admin)
        .post("/identities/{id}/disable", Admin, identity::disable)
        .summary("Disables an identity, for some minutes or until it is enabled, and ends its sessions.")
        .post("/identities/{id}/enable", Admin, identity::enable)
        .summary("Enables a disabled identity.")
        .delete("/identities/{id}/mfa", Admin, identity::remove_mfa)
        .summary("Removes an identity's one-time codes, for a user who lost the device.")
        .linked::<Identity, Authenticator>(Admin)
        .linked::<Identity, Enrollment>(Admin)
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
        .put("/identities/{id}/trace", Admin, trace::set)
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
        .edit::<EdgeRouter>(Admin)
        .post("/edge-routers/{id}/re-enroll", Admin, edge_router::re_enroll)
        .summary("Revokes a router's certificates and creates a new enrollment token for it.")
        .related::<EdgeRouter, EdgeRouterPolicy>(Admin)
        .related::<EdgeRouter, Identity>(Admin)
        .related::<EdgeRouter, ServiceEdgeRouterPolicy>(Admin)
        .get("/edge-routers/{id}/services", Admin, service::of_edge_router)
        .get("/edge-router-role-attributes", Admin, roles::of_edge_routers)
        // transit routers, under both of their names
        .mount(|routes| transit_router::routes(routes, "/routers"))
        .mount(|routes| transit_router::routes(routes, "/transit-routers"))
        // policies
        .crud::<ServicePolicy>(Admin)
        .related::<ServicePolicy, Identity>(Admin)
        .get("/service-policies/{id}/services", Admin, service::of_service_policy)
        .related::<ServicePolicy, PostureCheck>(Admin)
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
        .remove::<ApiSession>(Admin)
        .crud::<AuthPolicy>(Admin)
        .crud::<ExternalJwtSigner>(Admin)
        .read::<Authenticator>(Admin)
        .post("/authenticators", Admin, authenticator::create)
        .summary("Creates a credential for an identity without an enrollment.")
        .body_name("authenticator")
        .refuses(&[404, 409])
        .put("/authenticators/{id}", Admin, authenticator::replace)
        .summary("Sets the user name and password of an authenticator.")
        .body_name("authenticator")
        .refuses(&[409])
        .patch("/authenticators/{id}", Admin, authenticator::patch)
        .summary("Sets the user name or the password of an authenticator.")
        .body_name("authenticator")
        .refuses(&[409])
        .remove::<Authenticator>(Admin)
        .post("/authenticators/{id}/re-enroll", Admin, authenticator::re_enroll)
        .summary("Deletes a credential and creates the enrollment for a new one.")
        .refuses(&[409])
        .read::<Ca>(Admin)
        .create::<Ca>(Admin)
        .put("/cas/{id}", Admin, crud::replace::<Ca>)
        .patch("/cas/{id}", Admin, ca::patch)
        .remove::<Ca>(Admin)
        .post("/cas/{id}/verify", Admin, ca::verify)
        .summary("Verifies a certificate authority by a certificate that it issued with the verification token as common name.")
        .refuses(&[409])
        .get("/cas/{id}/jwt", Admin, ca::token)
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
        // the file
        .mount(database::routes)
        .session_only(SESSION_ONLY)
}

/// Operations to which the contract assigns only the first authorization scheme.
const SESSION_ONLY: &[&str] = &[
    "DELETE /api-sessions/{id}",
    "POST /authenticators",
    "GET /authenticators/{id}",
    "PUT /authenticators/{id}",
    "PATCH /authenticators/{id}",
    "DELETE /authenticators/{id}",
    "POST /authenticators/{id}/re-enroll",
    "POST /cas",
    "GET /cas/{id}",
    "PUT /cas/{id}",
    "PATCH /cas/{id}",
    "DELETE /cas/{id}",
    "GET /cas/{id}/jwt",
    "POST /cas/{id}/verify",
    "POST /config-types",
    "GET /config-types/{id}",
    "PUT /config-types/{id}",
    "PATCH /config-types/{id}",
    "DELETE /config-types/{id}",
    "GET /config-types/{id}/configs",
    "PUT /edge-routers/{id}",
    "PATCH /edge-routers/{id}",
    "DELETE /edge-routers/{id}",
    "GET /edge-routers/{id}/edge-router-policies",
    "GET /edge-routers/{id}/identities",
    "POST /edge-routers/{id}/re-enroll",
    "GET /edge-routers/{id}/service-edge-router-policies",
    "GET /edge-routers/{id}/services",
    "GET /identities/{id}/authenticators",
    "POST /identities/{id}/disable",
    "POST /identities/{id}/enable",
    "GET /identities/{id}/enrollments",
    "DELETE /identities/{id}/mfa",
    "POST /service-policies",
    "GET /service-policies/{id}",
    "PUT /service-policies/{id}",
    "PATCH /service-policies/{id}",
    "DELETE /service-policies/{id}",
    "GET /service-policies/{id}/identities",
    "GET /service-policies/{id}/posture-checks",
    "GET /service-policies/{id}/services",
    "GET /database/data-integrity-results",
    "POST /database/fix-data-integrity",
    "PUT /identities/{id}/trace",
    "PUT /terminators/{id}",
    "PATCH /terminators/{id}",
    "DELETE /terminators/{id}",
];
