//! The configuration of an edge router, as `ziti router run` reads it. docs/routers.md shows the
//! same configuration; a test compares both.

use std::str::FromStr;

use model::{
    config::Address,
    entity::{EdgeRouter, Entity, Id, Lookup, Record, RouterInfo, TypedLookup, missing},
    error::{Error, Result},
};
use pki::AlternativeNames;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use store::Read;

use crate::{answer::Data, call::Call, extractor::Query};

/// The port for SDKs, and that for other routers, if the request names none.
const SDK_PORT: u16 = 3022;
const LINK_PORT: u16 = 10080;

/// The values of the place where the router runs.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Placement {
    /// The `host:port` at which SDKs reach the router. Default: what it reports, or else its name
    /// and port 3022.
    #[serde(default)]
    advertise: Option<String>,
    /// The port for other routers, 10080 by default. 0: the router only dials others, such as one
    /// behind a firewall.
    #[serde(default)]
    link_port: Option<u16>,
    /// The directory for its keys and certificates. Default: the working directory of the router.
    #[serde(default)]
    folder: Option<String>,
}

/// GET /edge-routers/{id}/configuration
pub(crate) async fn show(
    call: Call,
    id: Id<EdgeRouter>,
    Query(placement): Query<Placement>,
) -> Result<Data<Map<String, Json>>> {
    let advertise = call
        .state
        .store
        .read(|tx| advertised(tx, &id, placement.advertise.as_deref()))?;
    let folder = placement
        .folder
        .filter(|folder| !folder.is_empty())
        .unwrap_or_else(|| ".".into());
    let link_port = placement.link_port.unwrap_or(LINK_PORT);
    Ok(Data(configuration(
        &call.state.instance.address,
        &advertise,
        link_port,
        &folder,
    )))
}

/// The address for SDKs: the requested one, or else the one that the router reports, or else the
/// name of the router with port 3022.
fn advertised(tx: &Read<'_>, id: &Id<EdgeRouter>, wanted: Option<&str>) -> Result<Address> {
    let router = tx.get(id)?;
    if router.is_built_in() {
        // The built-in router runs in the controller and is configured there.
        return Err(missing(EdgeRouter::KIND, id));
    }
    match wanted.filter(|text| !text.is_empty()) {
        Some(text) => Address::from_str(text)
            .map_err(|error| Error::invalid("advertise", error.to_string(), text)),
        None => reported(tx.router_info(id.as_str())).map_or_else(|| named(&router), Ok),
    }
}

/// The address in `tls://host:port`.
fn reported(link: Option<RouterInfo>) -> Option<Address> {
    link?
        .protocols
        .get("tls")?
        .strip_prefix("tls://")?
        .parse()
        .ok()
}

fn named(router: &Record<EdgeRouter>) -> Result<Address> {
    let name = &router.spec.name;
    format!("{name}:{SDK_PORT}").parse().map_err(|_| {
        let reason =
            "the name of the router is not a host name: give the host:port at which SDKs reach it";
        Error::invalid("advertise", reason, name)
    })
}

fn configuration(
    controller: &str,
    advertise: &Address,
    link_port: u16,
    folder: &str,
) -> Map<String, Json> {
    let file = |name: &str| format!("{folder}/{name}");
    let names = AlternativeNames::of_hosts([advertise.host()]);
    let mut sans = Map::new();
    if !names.dns.is_empty() {
        sans.insert("dns".into(), names.dns.into());
    }
    if !names.addresses.is_empty() {
        sans.insert(
            "ip".into(),
            names.addresses.iter().map(ToString::to_string).collect(),
        );
    }
    let mut link = Map::from_iter([("dialers".to_owned(), json!([{ "binding": "transport" }]))]);
    if link_port != 0 {
        let at = advertise.clone().at(link_port);
        let listener = json!({ "binding": "transport", "bind": format!("tls:0.0.0.0:{link_port}"), "advertise": format!("tls:{at}") });
        link.insert("listeners".into(), json!([listener]));
    }
    let listener = json!({
        "binding": "edge",
        "address": format!("tls:0.0.0.0:{}", advertise.port()),
        "options": { "advertise": advertise.to_string() },
    });
    let identity = json!({ "cert": file("cert.pem"), "server_cert": file("server.pem"), "key": file("key.pem"), "ca": file("ca.pem") });
    Map::from_iter([
        ("v".into(), 3.into()),
        ("identity".into(), identity),
        (
            "ctrl".into(),
            json!({ "endpoint": format!("tls:{controller}"), "dataDir": folder }),
        ),
        ("listeners".into(), json!([listener])),
        ("link".into(), link.into()),
        ("edge".into(), json!({ "csr": { "sans": sans } })),
    ])
}
