//! What only this controller has, for administrators. The other two interfaces are the contract's, and stay as their clients know them.

mod channels;
mod circuits;
mod events;
mod explain;
mod history;
mod live;
mod names;

use super::common;
use crate::http::{permission::Permission::*, route::Routes};

/// The whole table.
pub fn routes() -> Routes {
    Routes::new("extensions", "/overkeep/v1", env!("CARGO_PKG_VERSION"))
        .get("/openapi.json", Open, common::spec::overkeep)
        .summary("This description.")
        .get("/explain", Admin, explain::explain)
        .summary("Why an identity may or may not dial or bind a service, and what would change that.")
        .refuses(&[404])
        .get("/history", Admin, history::list)
        .summary("What was changed, who gained and who lost access by it, who logged in and who was refused, the newest first.")
        .get("/circuits", Admin, circuits::list)
        .summary("The circuits through the built-in router: who dialed what, who hosts it, and how much goes each way.")
        .get("/circuits/{id}", Admin, circuits::detail)
        .summary("A circuit through the built-in router.")
        .delete("/circuits/{id}", Admin, circuits::end)
        .summary("End a circuit: both ends are told that it is closed. The client may dial again.")
        .get("/channels", Admin, channels::list)
        .summary("The connections of clients to the built-in router.")
        .get("/events", Admin, events::watch)
        .summary("The same as it happens, as server-sent events.")
}
