//! The extensions of this controller, for administrators. The other interfaces follow the OpenZiti
//! contract.

pub(crate) mod api_tokens;
mod attention;
mod channels;
mod circuits;
mod doctor;
mod events;
mod expiring;
mod explain;
mod extensions;
mod history;
mod hosting;
mod last_hour;
mod links;
mod login_link;
mod names;
mod network;
mod online;
mod router_configuration;
mod signer_login;
mod snapshots;
mod traffic;

use std::sync::Arc;

pub(crate) use signer_login::RETURN_PATH;

use model::entity::ApiToken;

use super::common;
use crate::{
    call::Call,
    change_mode::ChangeMode,
    extractor::{IfMatch, Query},
    network_document::kinds::DeclaredKinds,
    permission::Permission::*,
    route::Routes,
};

/// The route table of the interface without [`api_tokens::creation`]. `declared` are the kinds of
/// the network document.
pub(crate) fn routes(declared: DeclaredKinds) -> Routes {
    let schema = declared.schema();
    let declared = Arc::new(declared);
    let kinds = declared.clone();
    Routes::new("extensions", "/overkeep/v1", env!("CARGO_PKG_VERSION"))
        .get("/openapi.json", Open, common::spec::overkeep)
        .summary("This OpenAPI document.")
        .get("/explain", Admin, explain::explain)
        .summary("Why an identity may or may not dial or bind a service, and what would change that.")
        .refuses(&[404])
        .get("/history", Admin, history::list)
        .summary("The history, newest first: changes, who gained and lost access by them, logins and rejected requests.")
        .post("/certificates/request-extend", Admin, extensions::request)
        .summary("Asks the holders of client certificates to renew them: those of one identity, or everybody.")
        .body_name("extensionRequests")
        .refuses(&[404])
        .get("/circuits", Admin, circuits::list)
        .summary("The circuits, with client, host, service, routers and traffic.")
        .get("/circuits/{id}", Admin, circuits::detail)
        .summary("One circuit.")
        .delete("/circuits/{id}", Admin, circuits::end)
        .summary("Ends a circuit at both ends. The client may dial again.")
        .get("/links", Admin, links::list)
        .summary("The links between routers, with their latencies, costs and traffic.")
        .get("/links/{id}", Admin, links::detail)
        .summary("One link between routers.")
        .delete("/links/{id}", Admin, links::close)
        .summary("Closes a link at both ends. The router that had dialed it dials it again.")
        .get("/channels", Admin, channels::list)
        .summary("The connections of SDKs to the built-in router.")
        .get("/online", Admin, online::list)
        .summary("Who is connected now: identities at the built-in router, one entry for each connection, and routers with their traffic.")
        .get("/hosting", Admin, hosting::list)
        .summary("Who hosts each service, since when nobody does, and which dials of its hosts failed.")
        .get("/traffic", Admin, traffic::traffic)
        .summary("The counters of the built-in router: what is open now, and what was relayed and refused since the start.")
        .get("/last-hour", Admin, last_hour::show)
        .summary("Traffic, log-ins and refusals of the last hour, in steps of ten seconds.")
        .get("/doctor", Admin, doctor::findings)
        .summary("What would trouble the controller on its host and, on request, in its network; each with what mends it.")
        .without_time_limit()
        .get("/snapshots", Admin, snapshots::list)
        .summary("The snapshots in snapshots.directory and the one beside the data file, the newest first.")
        .post("/snapshot-trials", Admin, snapshots::begin)
        .summary("Starts a proof or a restore drill of a snapshot, one at a time.")
        .body_name("snapshotTrial")
        .get("/snapshot-trials", Admin, snapshots::state)
        .summary("The progress or the result of the last trial of a snapshot. Null if there was none since the start.")
        .get("/expiring", Admin, expiring::list)
        .summary("Certificates, enrollments and API tokens that end within a duration, or have ended, the first first.")
        .get("/attention", Admin, attention::show)
        .summary("Services that nobody hosts or whose dials fail, identities that are disabled, and enrollments that are outstanding or have expired unused.")
        .get("/edge-routers/{id}/configuration", Admin, router_configuration::show)
        .summary("The configuration of an edge router, for `ziti router run`. JSON is YAML, too. The built-in router has none.")
        .get("/network", Admin, move |call: Call| network::show(declared.clone(), call))
        .summary("The whole network as one document: every object that has a name, with names instead of ids, without secrets.")
        .without_time_limit()
        .put(
            "/network",
            Admin,
            move |call: Call,
                  known: IfMatch,
                  Query(options): Query<network::Options>,
                  network: network::NetworkDocument,
                  mode: ChangeMode| { network::replace(kinds.clone(), call, known, options, network, mode) },
        )
        .summary("Applies a network document in one transaction. Answers the changes, and who gains and who loses access.")
        .body_schema(&schema)
        .refuses(&[404, 409])
        .without_time_limit()
        .read::<ApiToken>(Admin)
        .delete("/api-tokens/{id}", Admin, api_tokens::revoke)
        .summary("Revokes an API token.")
        .post("/authenticate/link", Open, login_link::redeem)
        .summary("Opens an API session with a one-time link that the owner of the host made.")
        .body_name("loginLink")
        .refuses(&[401])
        .post("/authenticate/signer", Open, signer_login::begin)
        .summary("Begins a log-in of a browser at the issuer of an external JWT signer.")
        .body_name("signerLogin")
        .post("/authenticate/signer-code", Open, signer_login::finish)
        .summary("Opens an API session with the code that the issuer sent back with the browser.")
        .body_name("signerCode")
        .refuses(&[401])
        .get("/events", Admin, events::watch)
        .summary("New rows of the history, as server-sent events.")
}
