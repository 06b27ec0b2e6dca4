//! What `overkeep doctor` reads from the running controller over its admin socket.

use maintenance::doctor::DoctorFinding;
use rustls::pki_types::CertificateDer;
use serde_json::Value as Json;

use crate::cli::{
    api::{request::ApiRequest, transport::Transport},
    failure::CommandError,
    trust::roots_of,
};

/// The authorities of the controller; `None` if it does not answer.
pub(crate) fn authorities(controller: &Transport) -> Option<Vec<CertificateDer<'static>>> {
    let answer = get(controller, "/.well-known/est/cacerts", &[]).ok()?;
    roots_of(&String::from_utf8_lossy(&answer))
        .ok()
        .map(|roots| roots.into_iter().map(CertificateDer::from).collect())
}

/// The findings of the controller about its host and its network, with the configuration that it
/// runs with.
///
/// # Errors
/// One line: it does not answer with findings.
pub(crate) fn findings(controller: &Transport) -> Result<Vec<DoctorFinding>, CommandError> {
    let answer = get(controller, "/overkeep/v1/doctor", &[("network", "true")])?;
    let mut whole: Json = serde_json::from_slice(&answer).map_err(CommandError::of)?;
    serde_json::from_value(whole.get_mut("data").map(Json::take).unwrap_or_default())
        .map_err(CommandError::of)
}

/// The body of a successful answer.
fn get(
    controller: &Transport,
    path: &str,
    query: &[(&str, &str)],
) -> Result<Vec<u8>, CommandError> {
    let query = query
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let request = ApiRequest {
        method: "GET".into(),
        path: path.into(),
        query,
        ..ApiRequest::default()
    };
    controller
        .ask(request, None)?
        .good()
        .map(|answer| answer.body)
}
