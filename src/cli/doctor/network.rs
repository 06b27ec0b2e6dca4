//! What the network checks of `overkeep doctor` read from the running controller over its admin socket.

use rustls::pki_types::CertificateDer;
use serde_json::Value as Json;

use crate::{
    cli::{
        api::{request::Request, transport::Transport},
        trust::roots_of,
    },
    config::Config,
    maintenance::doctor::{Finding, network},
};

const CONTROLLER: &str = "controller";

/// All findings about a running controller, checked with the configuration that it runs with. The controller checks its host itself. The
/// addresses that it advertises are read from its answer about its version. `None` if no controller answers.
pub(crate) fn running_findings(controller: &Transport) -> Option<Vec<Finding>> {
    let mut found: Vec<Finding> = serde_json::from_value(data(&get(controller, "/overkeep/v1/doctor", &[]).ok()?)).ok()?;
    let authorities = authorities(controller)?;
    let version = data(&get(controller, "/edge/management/v1/version", &[]).ok()?);
    let urls = version.pointer("/apiVersions/edge-management/v1/apiBaseUrls").and_then(Json::as_array);
    let hosts = urls.into_iter().flatten().filter_map(|url| url.as_str()?.strip_prefix("https://")?.split('/').next());
    found.push(Finding::good(CONTROLLER, "it answers, and is checked with the configuration that it runs with"));
    found.extend(hosts.filter_map(|host| host.parse().ok()).map(|address| {
        let own = network::served(&address, Some(&authorities));
        // The controller may serve a certificate of another issuer.
        let other = (!own.healthy).then(|| network::served(&address, None)).filter(|other| other.healthy);
        other.unwrap_or(own)
    }));
    found.extend([network::certificates(&ending(controller)), network::key_sets(&signers(controller))]);
    Some(found)
}

/// The authorities of the controller; `None` if it does not answer.
fn authorities(controller: &Transport) -> Option<Vec<CertificateDer<'static>>> {
    let answer = get(controller, "/.well-known/est/cacerts", &[]).ok()?;
    roots_of(&answer).ok().map(|roots| roots.into_iter().map(CertificateDer::from).collect())
}

/// All findings of the network checks with this configuration.
pub(crate) fn findings(config: &Config, controller: &Transport) -> Vec<Finding> {
    let known = authorities(controller).map(|authorities| network::ControllerFacts {
        authorities,
        ending: ending(controller),
        signers: signers(controller),
    });
    let mut found = vec![running(config, known.is_some())];
    found.extend(network::findings(config, known.as_ref()));
    found
}

fn running(config: &Config, is_running: bool) -> Finding {
    if is_running {
        return Finding::good(CONTROLLER, format!("it answers beside {}", config.data.display()));
    }
    let detail = format!("no controller answers beside {}; addresses, certificates and key sets were not checked", config.data.display());
    Finding::bad(CONTROLLER, detail, "start the controller with overkeep run, or run this command as the user of the controller")
}

fn ending(controller: &Transport) -> Result<Vec<String>, String> {
    let found = data(&get(controller, "/overkeep/v1/expiring", &[("within", "30d")])?);
    let items = found.get("items").and_then(Json::as_array).into_iter().flatten();
    let of = |item: &Json, member: &str| item.get(member).and_then(Json::as_str).unwrap_or_default().to_owned();
    // Enrollments are left out because they are meant to end within hours, and snapshots because they have a check of their own.
    let kept = items.filter(|item| item.get("kind").is_none_or(|kind| kind != "enrollment" && kind != "snapshot"));
    Ok(kept.map(|item| format!("{} {}", of(item, "kind"), of(item, "name"))).collect())
}

fn signers(controller: &Transport) -> Result<Vec<(String, String)>, String> {
    let signers = data(&get(controller, "/edge/management/v1/external-jwt-signers", &[("limit", "500")])?);
    let checked = |signer: &Json| {
        let text = |member: &str| signer.get(member).and_then(Json::as_str).filter(|text| !text.is_empty());
        let endpoint = text("jwksEndpoint").filter(|_| signer.get("enabled") == Some(&Json::Bool(true)))?;
        Some((text("name").unwrap_or(endpoint).to_owned(), endpoint.to_owned()))
    };
    Ok(signers.as_array().into_iter().flatten().filter_map(checked).collect())
}

/// The body of a successful answer.
fn get(controller: &Transport, path: &str, query: &[(&str, &str)]) -> Result<String, String> {
    let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let request = Request { method: "GET".into(), path: path.into(), query, ..Request::default() };
    let answer = controller.ask(request, None).and_then(|answer| answer.good());
    answer.map(|answer| String::from_utf8_lossy(&answer.body).into_owned()).map_err(|failure| failure.message())
}

fn data(text: &str) -> Json {
    let mut whole: Json = serde_json::from_str(text).unwrap_or_default();
    whole.get_mut("data").map(Json::take).unwrap_or_default()
}
