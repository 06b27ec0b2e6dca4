//! Inspections: requests to routers for values of their state.

use std::collections::BTreeSet;

use model::error::{Error, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::{answer::BareJson, call::Call, extractor::Body};

/// The expression that means all routers.
const ALL: &str = ".*";
/// The maximum number of values in a request.
const MAX_VALUES: usize = 100;

/// What is asked, and of which routers.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "InspectRequest")]
pub(crate) struct InspectionRequest {
    /// The ids of the routers, separated by `|`, or `.*` for all that are connected.
    app_regex: String,
    /// The names of the values, such as `links`, `circuits` or `stackdump`.
    requested_values: Vec<String>,
}

/// The answers of the routers.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "InspectResponse")]
pub(crate) struct InspectionAnswers {
    /// Whether every router answered without an error.
    success: bool,
    /// The errors of routers, and the routers that did not answer in time.
    errors: Vec<String>,
    /// The values, in the order of routers and names.
    values: Vec<InspectionAnswer>,
}

/// One value of a router.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "InspectResponseValue")]
pub(crate) struct InspectionAnswer {
    /// The id of the router.
    app_id: String,
    name: String,
    /// JSON if the router answers with JSON, otherwise its text.
    value: Json,
}

/// POST /inspections. Tools expect the answer without `data`.
pub(crate) async fn inspect(
    call: Call,
    Body(asked): Body<InspectionRequest>,
) -> Result<BareJson<InspectionAnswers>> {
    let InspectionRequest {
        app_regex,
        requested_values,
    } = asked;
    if requested_values.is_empty() || requested_values.len() > MAX_VALUES {
        let text = format!("must name 1 to {MAX_VALUES} values, such as links");
        return Err(Error::invalid(
            "requestedValues",
            &text,
            requested_values.len().to_string(),
        ));
    }
    let is_plain = |id: &str| {
        !id.is_empty()
            && id
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    if app_regex != ALL && !app_regex.split('|').all(is_plain) {
        return Err(Error::invalid(
            "appRegex",
            "must be ids of routers separated by |, or .* for all",
            app_regex,
        ));
    }
    let ids: BTreeSet<&str> = app_regex.split('|').collect();
    // So that a silent router does not fail the request of which others have answered their part.
    let limit = call.state.config.http.request_timeout.duration() / 2;
    let found = call
        .state
        .network
        .control
        .inspect(
            |router| app_regex == ALL || ids.contains(router),
            &requested_values,
            limit,
        )
        .await;
    let values = found.values.into_iter().map(|found| InspectionAnswer {
        app_id: found.router,
        name: found.name,
        value: serde_json::from_str(&found.value).unwrap_or(Json::String(found.value)),
    });
    Ok(BareJson(InspectionAnswers {
        success: found.errors.is_empty(),
        errors: found.errors,
        values: values.collect(),
    }))
}
