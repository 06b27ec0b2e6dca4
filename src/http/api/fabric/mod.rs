//! The fabric interface: routers, services, terminators, links and circuits as the tools of operators list them. Administrators only. Nothing
//! can be changed here except that the data file can be copied: what there is, is managed in the management interface.
//!
//! Start reading at [`routes`]. Not here: rules of kinds, and the connections of routers (`network/`).

mod circuit;
mod in_memory_list;
mod link;
mod router;
mod service;
mod terminator;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    common,
    management::database::{self, DatabaseSnapshotDetails},
};
use crate::error::{Error, Result};
use crate::http::{
    answer::{Done, Shown},
    call::Call,
    extractor::OptionalBody,
    permission::Permission::*,
    route::Routes,
};

/// The version of the description that tools know.
const VERSION: &str = "0.16.54";

/// The whole table.
pub fn routes() -> Routes {
    Routes::new("fabric", "/fabric/v1", VERSION)
        .get("/openapi.json", Open, common::spec::fabric)
        .summary("This description.")
        .get("/routers", Admin, router::list)
        .summary("All routers, of either kind.")
        .get("/routers/{id}", Admin, router::detail)
        .summary("One router.")
        .get("/routers/{id}/terminators", Admin, terminator::of_router)
        .summary("The terminators on a router.")
        .get("/services", Admin, service::list)
        .summary("All services.")
        .get("/services/{id}", Admin, service::detail)
        .summary("One service.")
        .get("/services/{id}/terminators", Admin, terminator::of_service)
        .summary("The terminators of a service.")
        .get("/terminators", Admin, terminator::list)
        .summary("All terminators.")
        .get("/terminators/{id}", Admin, terminator::detail)
        .summary("One terminator.")
        .get("/links", Admin, link::list)
        .summary("The connections between routers.")
        .get("/links/{id}", Admin, link::detail)
        .summary("One connection between routers.")
        .get("/circuits", Admin, circuit::list)
        .summary("The paths that traffic takes at present.")
        .get("/circuits/{id}", Admin, circuit::detail)
        .summary("One path that traffic takes at present.")
        .post("/database", Admin, copy)
        .patient()
        .summary("Copies the data file to one beside it, once a minute at most.")
        .post("/database/snapshot", Admin, snapshot)
        .patient()
        .summary("Copies the data file to one beside it, once a minute at most, and says where that is.")
        .body_name("snapshot")
}

/// Where a copy of the data file is to be.
#[derive(Deserialize, JsonSchema)]
pub struct DatabaseSnapshotCreate {
    /// Blank: beside the data file. Nobody names another place from afar.
    #[serde(default)]
    path: String,
}

/// POST /database
async fn copy(call: Call) -> Result<Done> {
    database::snapshot(call).await.map(|_| Done)
}

/// POST /database/snapshot
async fn snapshot(call: Call, OptionalBody(wanted): OptionalBody<DatabaseSnapshotCreate>) -> Result<Shown<DatabaseSnapshotDetails>> {
    match wanted.map(|wanted| wanted.path).filter(|path| !path.trim().is_empty()) {
        Some(path) => Err(Error::invalid("path", "must be blank: the copy is put beside the data file", path)),
        None => database::snapshot(call).await,
    }
}
