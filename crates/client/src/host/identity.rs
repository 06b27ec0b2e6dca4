//! What an identity says about hosting.

use std::collections::HashMap;

use model::entity::Precedence;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::controller::or_default;

/// The name of the hosting identity, in a template.
pub(super) const IDENTITY: &str = "$tunneler_id.name";

/// The most characters of the identity of a terminator.
const INSTANCE: usize = 1024;

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

/// The identity of a terminator: a template in which `$tunneler_id.name` and the values of the
/// identity's tags and application data are filled in. What is not known becomes empty, and values
/// are not filled in once more.
pub(super) fn instance(template: &str, identity: &HostIdentity) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        text.push_str(before);
        let (value, left) = identity.filled(after).unwrap_or(("$".to_owned(), after));
        text.push_str(&value);
        rest = left;
        if text.len() > INSTANCE {
            break;
        }
    }
    text.push_str(rest);
    text.chars().take(INSTANCE).collect()
}

impl HostIdentity {
    /// The value of the reference that a text begins with, and what follows it.
    fn filled<'a>(&self, text: &'a str) -> Option<(String, &'a str)> {
        if let Some(rest) = text.strip_prefix("tunneler_id.name") {
            return Some((self.name.clone(), rest));
        }
        let (values, rest) = match text.strip_prefix("tunneler_id.tag[") {
            Some(rest) => (&self.tags, rest),
            None => (&self.app_data, text.strip_prefix("tunneler_id.appData[")?),
        };
        let (key, rest) = rest.split_once(']')?;
        let value = match values.get(key) {
            None | Some(Json::Null) => String::new(),
            Some(Json::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        Some((value, rest))
    }
}
