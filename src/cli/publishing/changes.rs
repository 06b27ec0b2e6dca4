//! Network documents of commands: planned, and applied if nothing has changed since.

use serde_json::Value as Json;

use crate::cli::{
    api::{
        request::{ApiRequest, JSON},
        transport::Transport,
    },
    failure::CommandError,
    network_document::{PATH, entries, word},
};

/// The plan of a document.
///
/// # Errors
/// One line: the controller does not answer, or the document cannot be applied.
pub(super) fn plan(transport: &Transport, network: &Json) -> Result<Json, CommandError> {
    let mut request = request(network);
    request.query.push(("preview".into(), "true".into()));
    Ok(transport.ask(request, None)?.good()?.data())
}

/// Applies a document; `false` if the network has changed since the plan.
///
/// # Errors
/// As [`plan`].
pub(super) fn apply(
    transport: &Transport,
    network: &Json,
    plan: &Json,
) -> Result<bool, CommandError> {
    let mut request = request(network);
    let tag = format!("\"{}\"", word(plan, "/tag"));
    request.headers.push(("if-match".into(), tag));
    let answer = transport.ask(request, None)?;
    if answer.status == 412 {
        return Ok(false);
    }
    answer.good().map(|_| true)
}

/// Whether a plan does nothing but create objects. An update of no member only sorts roles.
pub(super) fn is_of_creations(plan: &Json) -> bool {
    entries(plan, "objects").iter().all(|object| {
        let is_update = word(object, "/action") == "update";
        word(object, "/action") == "create" || is_update && entries(object, "members").is_empty()
    })
}

fn request(network: &Json) -> ApiRequest {
    let deleted = network.get("delete").and_then(Json::as_object);
    let deletions: usize = deleted
        .into_iter()
        .flat_map(|kinds| kinds.values())
        .filter_map(Json::as_array)
        .map(Vec::len)
        .sum();
    ApiRequest {
        method: "PUT".into(),
        path: PATH.into(),
        query: vec![
            ("strict".into(), "true".into()),
            ("maxDeletions".into(), deletions.to_string()),
        ],
        headers: Vec::new(),
        body: Some((JSON.into(), network.to_string())),
    }
}
