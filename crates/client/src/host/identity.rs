//! What an identity says about hosting.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::{binding::Precedence, controller::or_default};

/// The name of the hosting identity, in a template.
pub(super) const IDENTITY: &str = "$tunneler_id.name";

/// What an identity says about hosting.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct HostIdentity {
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) tags: Map<String, Json>,
    #[serde(deserialize_with = "or_default")]
    pub(super) app_data: Map<String, Json>,
    #[serde(rename = "defaultHostingCost", deserialize_with = "or_default")]
    pub(super) cost: u16,
    #[serde(rename = "defaultHostingPrecedence", deserialize_with = "or_default")]
    pub(super) precedence: Precedence,
    /// By the id of the service.
    #[serde(rename = "serviceHostingCosts", deserialize_with = "or_default")]
    pub(super) costs: HashMap<String, u16>,
    #[serde(rename = "serviceHostingPrecedences", deserialize_with = "or_default")]
    pub(super) precedences: HashMap<String, Precedence>,
}

/// The identity of a terminator: `$tunneler_id.name` and the values of the identity's tags and
/// application data in a template. What is not known becomes empty.
pub(super) fn instance(template: &str, identity: &HostIdentity) -> String {
    let mut text = template.replace(IDENTITY, &identity.name.replace('$', ""));
    for (prefix, values) in [
        ("$tunneler_id.tag[", &identity.tags),
        ("$tunneler_id.appData[", &identity.app_data),
    ] {
        while let Some((before, rest)) = text.split_once(prefix) {
            let Some((key, after)) = rest.split_once(']') else {
                break;
            };
            text = format!("{before}{}{after}", value(values, key));
        }
    }
    text
}

fn value(values: &Map<String, Json>, key: &str) -> String {
    match values.get(key) {
        None | Some(Json::Null) => String::new(),
        // A value that names another value would be looked up for ever.
        Some(Json::String(text)) => text.replace('$', ""),
        Some(other) => other.to_string(),
    }
}
