//! The client interface, for identities that use and host services.

mod edge_router;
mod enroll;
mod enroll_keys;
mod enroll_methods;
mod external_jwt_signer;
mod posture;
mod service;
pub(crate) mod service_list;
mod session;
mod session_certificate;
mod terminator;

use model::entity::Service;

use super::common;
use crate::{
    permission::Permission::*,
    route::{CONTRACT, Routes},
};

/// The table of the interface.
pub(crate) fn routes() -> Routes {
    Routes::new("client", "/edge/client/v1", CONTRACT)
        .mount(common::routes)
        .get("/protocols", Open, common::information::protocols)
        .summary("The protocols of this controller, with their addresses.")
        .get("/openapi.json", Open, common::spec::client)
        .summary("This OpenAPI document.")
        .extension()
        .get("/swagger.json", Open, common::spec::client)
        .summary("This OpenAPI document, under its older name.")
        .extension()
        .post("/enroll", Open, enroll::enroll)
        .summary("Redeems a one-time token for a credential.")
        .get("/external-jwt-signers", Open, external_jwt_signer::list)
        .summary("The external signers whose tokens are accepted for a login.")
        .post("/enroll/ott", Open, enroll_methods::ott)
        .summary("Redeems a one-time token for a certificate of this controller.")
        .refuses(&[404])
        .post("/enroll/ottca", Open, enroll_methods::ottca)
        .summary("Redeems a one-time token with a client certificate of a third-party certificate authority.")
        .refuses(&[404, 409])
        .post("/enroll/erott", Open, enroll_methods::erott)
        .summary("Redeems a one-time token for the certificates of an edge router.")
        .refuses(&[404])
        .post("/enroll/updb", Open, enroll_methods::updb)
        .summary("Redeems a one-time token for a password.")
        .refuses(&[404])
        .post("/enroll/ca", Open, enroll_methods::ca)
        .summary("Creates an identity for a client certificate of a certificate authority that allows it.")
        .refuses(&[409])
        .post("/enroll/extend/router", Open, enroll_methods::extend_router)
        .summary("Renews the certificates of the router that presents its client certificate.")
        .refuses(&[401])
        .post("/enroll/challenge", Open, enroll_keys::challenge)
        .summary("Proves that this controller holds the key that signs its tokens.")
        .body_name("nonce")
        .get("/enroll/jwks", Open, enroll_keys::keys)
        .summary("The public keys that verify tokens of this controller.")
        .get("/current-api-session/certificates", User, session_certificate::list)
        .summary("The certificates of the session.")
        .post("/current-api-session/certificates", User, session_certificate::create)
        .summary("Issues a certificate that edge routers accept as long as the session lasts, for at most 12 hours.")
        .body_name("sessionCertificate")
        .get("/current-api-session/certificates/{id}", User, session_certificate::detail)
        .summary("One certificate of the session.")
        .delete("/current-api-session/certificates/{id}", User, session_certificate::delete)
        .summary("Deletes a certificate of the session.")
        .get("/current-api-session/service-updates", User, service::updates)
        .summary("When the caller's services or rights last changed.")
        .get("/current-identity/edge-routers", User, edge_router::of_caller)
        .summary("The edge routers the caller may use.")
        .get("/services", User, service::list)
        .summary("The services that the caller may dial or bind; for administrators all services.")
        .get("/services/{id}", User, service::detail)
        .summary("One service.")
        .edit::<Service>(Admin)
        .get("/services/{id}/terminators", User, terminator::of_service)
        .summary("The terminators of a service that the caller may dial or bind.")
        .get("/services/{id}/edge-routers", User, edge_router::of_service)
        .summary("The edge routers over which the caller reaches a service.")
        .post("/posture-response", User, posture::respond)
        .summary("Stores an endpoint's answer to a posture check.")
        .post("/posture-response-bulk", User, posture::respond_at_once)
        .summary("Stores several answers: all of them, or none if one is invalid.")
        .post("/sessions", User, session::create)
        .summary("Opens a session to dial or bind a service, or returns the one that is already open.")
        .refuses(&[404, 409])
}
