//! The extensions of this controller, for administrators. The other interfaces follow the OpenZiti contract.

mod channels;
mod circuits;
mod events;
mod explain;
mod history;
mod names;
mod traffic;

use super::common;
use crate::http::{permission::Permission::*, route::Routes};

/// The table of the interface.
pub fn routes() -> Routes {
    Routes::new("extensions", "/overkeep/v1", env!("CARGO_PKG_VERSION"))
        .get("/openapi.json", Open, common::spec::overkeep)
        .summary("This OpenAPI document.")
        .get("/explain", Admin, explain::explain)
        .summary("Why an identity may or may not dial or bind a service, and what would change that.")
        .refuses(&[404])
        .get("/history", Admin, history::list)
        .summary("The history, newest first: changes, who gained and lost access by them, logins and rejected requests.")
        .get("/circuits", Admin, circuits::list)
        .summary("The circuits through the built-in router, with client, host, service and traffic.")
        .get("/circuits/{id}", Admin, circuits::detail)
        .summary("One circuit through the built-in router.")
        .delete("/circuits/{id}", Admin, circuits::end)
        .summary("Ends a circuit at both ends. The client may dial again.")
        .get("/channels", Admin, channels::list)
        .summary("The connections of SDKs to the built-in router.")
        .get("/traffic", Admin, traffic::traffic)
        .summary("The numbers of the built-in router: what is open, and what it has relayed and rejected since the start.")
        .get("/events", Admin, events::watch)
        .summary("New rows of the history, as server-sent events.")
}
