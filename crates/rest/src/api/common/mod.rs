//! Operations of both the management and the client interface.

pub(crate) mod authenticate;
pub(crate) mod authenticator;
pub(crate) mod current_session;
mod held_rights;
pub(crate) mod in_memory_list;
pub(crate) mod information;
pub(crate) mod mfa;
pub(crate) mod network_token;
mod qr;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod spec;

use model::entity::Controller;

use crate::{permission::Permission::*, route::Routes};

/// The common rows.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/", Open, information::version)
        .summary("The version of this controller and the addresses of its interfaces.")
        .get("/version", Open, information::version)
        .summary("The version of this controller and the addresses of its interfaces.")
        .get("/enumerated-capabilities", Open, information::capabilities)
        .summary("The names of all capabilities that a controller of this version line can have.")
        .get("/.well-known/est/cacerts", Open, information::ca_store)
        .summary("The certificate authorities to trust, as a base64 PKCS#7 structure.")
        .get("/specs", Open, spec::list)
        .summary("The OpenAPI documents of the interfaces.")
        .get("/specs/{id}", Open, spec::detail)
        .summary("One OpenAPI document.")
        .get("/specs/{id}/spec", Open, spec::body)
        .summary("The text of an OpenAPI document, as YAML or JSON.")
        .get("/network-jwts", Open, network_token::list)
        .summary("The signed token with which a client joins the network at this address.")
        .extension()
        .list::<Controller>(User)
        .summary("The controllers of the cluster of this one.")
        .post("/authenticate", Open, authenticate::authenticate)
        .summary("Opens an API session.")
        .body_name("auth")
        .refuses(&[401])
        .post("/authenticate/mfa", Partial, mfa::authenticate)
        .summary("Completes a session with a one-time code or a recovery code.")
        .refuses(&[409])
        .get("/current-api-session", Partial, current_session::session)
        .summary("The session of the request.")
        .delete("/current-api-session", Partial, current_session::log_out)
        .summary("Ends the session of the request.")
        .get("/current-identity", User, current_session::identity)
        .summary("The identity of the session.")
        .get("/current-identity/mfa", Partial, mfa::detail)
        .summary("The caller's one-time codes: whether they are verified, and before that the data for an authenticator app.")
        .refuses(&[404])
        .post("/current-identity/mfa", Partial, mfa::enroll)
        .summary("Sets up one-time codes for the caller.")
        .refuses(&[409])
        .delete("/current-identity/mfa", User, mfa::remove)
        .summary("Removes the caller's one-time codes.")
        .refuses(&[404])
        .post("/current-identity/mfa/verify", Partial, mfa::verify)
        .summary("Verifies the caller's authenticator app with a code; later logins require codes.")
        .refuses(&[404])
        .get("/current-identity/mfa/qr-code", Partial, mfa::qr_code)
        .summary("The data for an authenticator app, as a QR code (PNG).")
        .get("/current-identity/mfa/recovery-codes", User, mfa::recovery_codes)
        .summary("The unused recovery codes; requires a one-time code.")
        .refuses(&[404])
        .post("/current-identity/mfa/recovery-codes", User, mfa::renew_recovery_codes)
        .summary("Makes new recovery codes; the previous ones become invalid.")
        .refuses(&[404])
        .get("/current-identity/authenticators", User, authenticator::list)
        .summary("The caller's credentials.")
        .get("/current-identity/authenticators/{id}", User, authenticator::detail)
        .summary("One credential of the caller.")
        .put("/current-identity/authenticators/{id}", User, authenticator::replace)
        .summary("Sets the caller's user name and password; requires the current password.")
        .body_name("authenticator")
        .refuses(&[409])
        .patch("/current-identity/authenticators/{id}", User, authenticator::patch)
        .summary("Sets the caller's user name or password; requires the current password.")
        .body_name("authenticator")
        .refuses(&[409])
        .post("/current-identity/authenticators/{id}/extend", User, authenticator::extend)
        .summary("Renews the client certificate of the connection; the new certificate must be confirmed.")
        .body_name("extend")
        .refuses(&[409])
        .post("/current-identity/authenticators/{id}/extend-verify", User, authenticator::confirm)
        .summary("Confirms a renewed certificate; the previous one becomes invalid.")
        .body_name("extend")
        .refuses(&[409])
        .post("/authenticators/{id}/extend", User, authenticator::extend)
        .summary("Renews the client certificate of the connection; the new certificate must be confirmed.")
        .body_name("extend")
        .refuses(&[409])
        .extension()
        .post("/authenticators/{id}/extend-verify", User, authenticator::confirm)
        .summary("Confirms a renewed certificate; the previous one becomes invalid.")
        .body_name("extend")
        .refuses(&[409])
        .extension()
        .get("/sessions", User, session::list)
        .summary("The caller's service sessions; for administrators all service sessions.")
        .get("/sessions/{id}", User, session::detail)
        .summary("One service session.")
        .delete("/sessions/{id}", User, session::delete)
        .summary("Ends a service session.")
}
