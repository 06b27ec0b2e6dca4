//! The fabric interface: routers, services, terminators, links and circuits as listed by operator
//! tools. For administrators only. It changes no records, which are managed in the management
//! interface; it can end circuits and links, and copy the data file.
//!
//! Start reading at [`routes`]. Not here: rules of kinds, and the connections of routers
//! (the crate `fabric`).

mod circuit;
mod cluster;
mod inspection;
mod link;
mod router;
mod service;
mod terminator;

use model::error::{Error, Result};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    common,
    management::database::{self, DatabaseSnapshotDetails},
};
use crate::{
    answer::{Data, NoData},
    call::Call,
    extractor::OptionalBody,
    permission::Permission::*,
    route::Routes,
};

/// The version of the interface that tools expect.
const VERSION: &str = "0.16.54";

/// The table of the interface.
pub(crate) fn routes() -> Routes {
    Routes::new("fabric", "/fabric/v1", VERSION)
        .get("/openapi.json", Open, common::spec::fabric)
        .summary("This OpenAPI document.")
        .get("/routers", Admin, router::list)
        .summary("All routers, edge and transit.")
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
        .summary("The links between routers.")
        .get("/links/{id}", Admin, link::detail)
        .summary("One link between routers.")
        .delete("/links/{id}", Admin, link::delete)
        .summary("Closes a link at both ends. The router that had dialed it dials it again.")
        .get("/circuits", Admin, circuit::list)
        .summary("The open circuits.")
        .get("/circuits/{id}", Admin, circuit::detail)
        .summary("One open circuit.")
        .delete("/circuits/{id}", Admin, circuit::delete)
        .summary("Ends a circuit at both ends. The client may dial again.")
        .post("/inspections", Admin, inspection::inspect)
        .summary("Asks remote routers for values that they know, such as their links or circuits.")
        .body_name("inspection")
        .get("/cluster/list-members", Admin, cluster::members)
        .summary("The controllers of the cluster: this one.")
        .post("/database", Admin, copy)
        .without_time_limit()
        .summary("Copies the data file to a new file beside it, at most once a minute.")
        .post("/database/snapshot", Admin, snapshot)
        .without_time_limit()
        .summary("Copies the data file to a new file beside it, at most once a minute, and returns its path.")
        .body_name("snapshot")
}

/// The location of a copy of the data file.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct DatabaseSnapshotCreate {
    /// Must be blank: the copy is written beside the data file. A remote caller cannot choose
    /// another place.
    #[serde(default)]
    path: String,
}

/// POST /database
async fn copy(call: Call) -> Result<NoData> {
    database::snapshot(call).await.map(|_| NoData)
}

/// POST /database/snapshot
async fn snapshot(
    call: Call,
    OptionalBody(wanted): OptionalBody<DatabaseSnapshotCreate>,
) -> Result<Data<DatabaseSnapshotDetails>> {
    match wanted
        .map(|wanted| wanted.path)
        .filter(|path| !path.trim().is_empty())
    {
        Some(path) => Err(Error::invalid(
            "path",
            "must be blank: the copy is written beside the data file",
            path,
        )),
        None => database::snapshot(call).await,
    }
}
