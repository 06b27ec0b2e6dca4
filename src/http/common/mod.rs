//! Operations that both interfaces have.

pub mod authenticate;
pub mod authenticator;
pub mod current;
pub mod information;
pub mod mfa;
pub mod network_token;
mod qr;
pub mod routers;
pub mod service;
pub mod session;
pub mod spec;
pub mod texts;

use super::{route::Routes, row::Permission::*};
use crate::entity::Controller;

/// The rows that stand in both tables.
pub fn routes(routes: Routes) -> Routes {
    routes
        .get("/", Open, information::version)
        .says("What this controller is and where its interfaces are.")
        .get("/version", Open, information::version)
        .says("What this controller is and where its interfaces are.")
        .get("/enumerated-capabilities", Open, information::capabilities)
        .says("The names of all capabilities that a controller of this line may have.")
        .get("/.well-known/est/cacerts", Open, information::ca_store)
        .says("The certificate authorities to trust, as a base64 PKCS#7 structure.")
        .get("/specs", Open, spec::list)
        .says("The descriptions of the interfaces.")
        .get("/specs/{id}", Open, spec::detail)
        .says("One description of an interface.")
        .get("/specs/{id}/spec", Open, spec::body)
        .says("The text of a description, as YAML or JSON.")
        .get("/network-jwts", Open, network_token::list)
        .says("The signed token that tells a client which network is at this address.")
        .extension()
        .list::<Controller>(User)
        .says("The controllers that run together with this one.")
        .post("/authenticate", Open, authenticate::authenticate)
        .says("Opens an API session.")
        .called("auth")
        .refuses(&[401])
        .post("/authenticate/mfa", Partial, mfa::authenticate)
        .says("Completes a session with a one-time code or a recovery code.")
        .refuses(&[409])
        .get("/current-api-session", Partial, current::session)
        .says("The session that the request carries.")
        .delete("/current-api-session", Partial, current::end_session)
        .says("Ends the session that the request carries.")
        .get("/current-identity", User, current::identity)
        .says("The identity of the session that the request carries.")
        .get("/current-identity/mfa", Partial, mfa::detail)
        .says("The caller's one-time codes: whether they are verified, and until then what an app needs to know.")
        .refuses(&[404])
        .post("/current-identity/mfa", Partial, mfa::enroll)
        .says("Sets up one-time codes for the caller.")
        .refuses(&[409])
        .delete("/current-identity/mfa", User, mfa::remove)
        .says("Removes the caller's one-time codes.")
        .refuses(&[404])
        .post("/current-identity/mfa/verify", Partial, mfa::verify)
        .says("Proves that the caller's app makes the right codes; from then on they are asked for.")
        .refuses(&[404])
        .get("/current-identity/mfa/qr-code", Partial, mfa::qr_code)
        .says("What an app needs to know, as a picture.")
        .get("/current-identity/mfa/recovery-codes", User, mfa::recovery_codes)
        .says("The recovery codes that are left, for a one-time code.")
        .refuses(&[404])
        .post("/current-identity/mfa/recovery-codes", User, mfa::renew_recovery_codes)
        .says("Makes new recovery codes; the ones before are dead.")
        .refuses(&[404])
        .get("/current-identity/authenticators", User, authenticator::list)
        .says("The caller's credentials.")
        .get("/current-identity/authenticators/{id}", User, authenticator::detail)
        .says("One credential of the caller.")
        .put("/current-identity/authenticators/{id}", User, authenticator::replace)
        .says("Sets the caller's user name and password; the current password is asked for.")
        .called("authenticator")
        .refuses(&[409])
        .patch("/current-identity/authenticators/{id}", User, authenticator::patch)
        .says("Sets the caller's user name or password; the current password is asked for.")
        .called("authenticator")
        .refuses(&[409])
        .post("/current-identity/authenticators/{id}/extend", User, authenticator::extend)
        .says("Renews the certificate that the connection shows; the new one waits to be confirmed.")
        .called("extend")
        .refuses(&[409])
        .post("/current-identity/authenticators/{id}/extend-verify", User, authenticator::confirm)
        .says("Confirms a renewed certificate: the one before is dead.")
        .called("extend")
        .refuses(&[409])
        .post("/authenticators/{id}/extend", User, authenticator::extend)
        .says("Renews the certificate that the connection shows; the new one waits to be confirmed.")
        .called("extend")
        .refuses(&[409])
        .extension()
        .post("/authenticators/{id}/extend-verify", User, authenticator::confirm)
        .says("Confirms a renewed certificate: the one before is dead.")
        .called("extend")
        .refuses(&[409])
        .extension()
        .get("/sessions", User, session::list)
        .says("The caller's service sessions; for administrators everybody's.")
        .get("/sessions/{id}", User, session::detail)
        .says("One service session.")
        .delete("/sessions/{id}", User, session::delete)
        .says("Ends a service session.")
}
