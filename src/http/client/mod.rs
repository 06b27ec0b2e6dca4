//! The client interface, for those who use and host services.

mod edge_router;
mod enroll;
mod external_jwt_signer;
mod service;
mod session;

use super::{common, route::Routes, row::Permission::*};

/// The whole table.
pub fn routes() -> Routes {
    Routes::new("client", "/edge/client/v1")
        .mount(common::routes)
        .get("/protocols", Open, common::information::protocols)
        .says("The protocols this controller speaks, and where.")
        .post("/enroll", Open, enroll::enroll)
        .says("Redeems a one-time token for a credential.")
        .get("/external-jwt-signers", Open, external_jwt_signer::list)
        .says("The external signers whose tokens log in.")
        .get("/current-api-session/service-updates", User, service::updates)
        .says("When that which the caller can see or do last changed.")
        .get("/current-identity/edge-routers", User, edge_router::of_caller)
        .says("The edge routers the caller may use.")
        .get("/services", User, service::list)
        .says("The services the caller may dial or bind; for administrators all.")
        .get("/services/{id}", User, service::detail)
        .says("One service.")
        .get("/services/{id}/edge-routers", User, edge_router::of_service)
        .says("The edge routers over which the caller reaches a service.")
        .post("/sessions", User, session::create)
        .says("Opens a session to dial or bind a service; the one that is open already, if there is one.")
}
