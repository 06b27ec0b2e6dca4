//! Names in a body that show something else than they hold. They are accepted, as clients expect,
//! and named in a header of the answer; with `strict`, which the command line sends, they are
//! rejected.
//!
//! Names are what people read in lists and write into policies: names of records, user names,
//! external ids, role attributes and tags. Free data, such as that of a config, is not looked at.

use model::{
    error::Error,
    hidden_text::{REASON, is_in, shown},
};
use serde_json::Value as Json;

/// The maximum number of reported members.
const LIMIT: usize = 20;
/// Members that hold names, with everything below them. So do those that end with `Roles`.
const NAMES: [&str; 6] = [
    "name",
    "username",
    "updb",
    "externalId",
    "roleAttributes",
    "tags",
];
const ROLES: &str = "Roles";
/// Members with free data.
const FREE: [&str; 3] = ["data", "appData", "schema"];
/// The parameter with which `apply` accepts such names, after an import.
pub(crate) const PARAMETER: &str = "hiddenCharacters";
pub(crate) const ACCEPT: &str = "accept";
/// A member with such a text: its path with dots, and the text with escapes.
pub(crate) struct HiddenMember {
    pub path: String,
    shown: String,
}

impl HiddenMember {
    /// The error for it.
    pub(crate) fn refused(self) -> Error {
        Error::invalid(self.path, REASON, self.shown)
    }
}

/// The members with such texts; at most [`LIMIT`].
pub(crate) fn hidden(body: &Json) -> Vec<HiddenMember> {
    let mut found = Vec::new();
    collect(body, "", false, &mut found);
    found
}

/// Whether a request accepts such names although it is strict.
pub(crate) fn are_accepted(query: &str) -> bool {
    form_urlencoded::parse(query.as_bytes())
        .any(|(name, value)| name == PARAMETER && value == ACCEPT)
}

fn collect(json: &Json, path: &str, is_name: bool, found: &mut Vec<HiddenMember>) {
    let below = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    match json {
        _ if found.len() >= LIMIT => {}
        Json::String(text) => found.extend((is_name && is_in(text)).then(|| HiddenMember {
            path: path.to_owned(),
            shown: shown(text),
        })),
        Json::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                collect(item, &below(&at.to_string()), is_name, found);
            }
        }
        Json::Object(members) => {
            for (name, member) in members
                .iter()
                .filter(|(name, _)| is_name || !FREE.contains(&name.as_str()))
            {
                let place = below(&shown(name));
                found.extend((is_name && is_in(name)).then(|| HiddenMember {
                    path: place.clone(),
                    shown: shown(name),
                }));
                collect(
                    member,
                    &place,
                    is_name || NAMES.contains(&name.as_str()) || name.ends_with(ROLES),
                    found,
                );
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}
