//! Unknown members of a body and unknown query parameters. They are accepted, as clients expect,
//! and named in a header of the answer; with `strict` they are rejected.

use model::error::{Error, Result};
use serde_json::{Map, Value as Json};

use super::{
    normalize::{described, is_described},
    openapi::operation::{Parameter, ParameterLocation, STRICT},
};

/// The maximum number of reported members.
const LIMIT: usize = 20;
/// The number of items checked per list.
const ITEMS: usize = 64;
/// The maximum bytes of a reported name.
const MAX_LENGTH: usize = 64;

/// An unknown member.
pub(crate) struct Unknown {
    /// The path, with dots.
    pub path: String,
    /// The names that the schema knows in the same object.
    known: Vec<String>,
}

impl Unknown {
    /// The error for it.
    pub(crate) fn refused(self) -> Error {
        Error::invalid(
            self.path,
            format!("is unknown; known members are {}", self.known.join(", ")),
            "",
        )
    }
}

/// Whether unknown members are to be rejected. If the parameter is repeated, `true` takes
/// precedence.
///
/// # Errors
/// The parameter is neither true nor false.
pub(crate) fn is_asked(query: &str) -> Result<bool> {
    let mut asked = false;
    for (_, value) in form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == STRICT) {
        match &*value {
            "true" => asked = true,
            "false" | "" => {}
            other => return Err(Error::invalid(STRICT, "must be true or false", other)),
        }
    }
    Ok(asked)
}

/// Unknown parameters of a query as `query.NAME`; at most [`LIMIT`].
///
/// # Errors
/// There are some, and the query asks for rejection.
pub(crate) fn of_query(query: &str, parameters: &[Parameter]) -> Result<Vec<String>> {
    let known = || {
        parameters
            .iter()
            .filter(|parameter| parameter.place == ParameterLocation::Query)
            .map(|parameter| &parameter.name)
    };
    let sent = form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name);
    let unknown: Vec<Unknown> = sent
        .filter(|name| name != STRICT && !known().any(|known| known == name.as_ref()))
        .take(LIMIT)
        .map(|name| Unknown {
            path: format!("query.{}", shortened(&name)),
            known: known().cloned().collect(),
        })
        .collect();
    report(unknown, query)
}

/// The paths of unknown members.
///
/// # Errors
/// There are some, and the query asks for rejection.
pub(crate) fn report(unknown: Vec<Unknown>, query: &str) -> Result<Vec<String>> {
    if !unknown.is_empty() && is_asked(query)? {
        Error::all(unknown.into_iter().map(|one| Err(one.refused())))?;
        return Ok(Vec::new());
    }
    Ok(unknown.into_iter().map(|one| one.path).collect())
}

/// The members of a body that its schema does not know; at most [`LIMIT`].
pub(crate) fn unknown(body: &Json, schema: &Json) -> Vec<Unknown> {
    let mut found = Vec::new();
    collect_unknown(body, schema, "", &mut found);
    found
}

fn collect_unknown(json: &Json, schema: &Json, path: &str, found: &mut Vec<Unknown>) {
    match json {
        Json::Object(members) if is_described(schema) => {
            let known = properties(members, schema);
            for (name, member) in members {
                let place = format!("{path}{}", shortened(name));
                match known.iter().find(|(known, _)| *known == name) {
                    Some((_, inner)) => {
                        collect_unknown(member, described(inner), &format!("{place}."), found)
                    }
                    None if found.len() < LIMIT => {
                        found.push(Unknown {
                            path: place,
                            known: known.iter().map(|(name, _)| (*name).clone()).collect(),
                        });
                    }
                    None => return,
                }
            }
        }
        Json::Array(items) => {
            let Some(inner) = schema.get("items") else {
                return;
            };
            for (at, item) in items.iter().take(ITEMS).enumerate() {
                collect_unknown(item, described(inner), &format!("{path}{at}."), found);
            }
        }
        _ => {}
    }
}

/// The members in a schema. Variants whose tag differs from the tag in the body are left out.
fn properties<'s>(members: &Map<String, Json>, schema: &'s Json) -> Vec<(&'s String, &'s Json)> {
    let is_its = |form: &&Json| {
        let tags = form
            .get("properties")
            .and_then(Json::as_object)
            .into_iter()
            .flatten();
        let mut tags = tags.filter_map(|(name, of)| Some((members.get(name)?, of.get("const")?)));
        tags.all(|(sent, tag)| sent == tag)
    };
    let forms = schema
        .get("oneOf")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter(is_its);
    std::iter::once(schema)
        .chain(forms)
        .filter_map(|form| form.get("properties")?.as_object())
        .flatten()
        .collect()
}

fn shortened(name: &str) -> &str {
    let end = (0..=MAX_LENGTH.min(name.len()))
        .rev()
        .find(|at| name.is_char_boundary(*at))
        .unwrap_or_default();
    name.get(..end).unwrap_or_default()
}

/// Paths as a header value, percent-encoded.
pub(crate) fn listed(paths: &[String]) -> String {
    const PLAIN: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
        .remove(b'.')
        .remove(b'-')
        .remove(b'_');
    paths
        .iter()
        .map(|path| percent_encoding::utf8_percent_encode(path, PLAIN).to_string())
        .collect::<Vec<_>>()
        .join(", ")
}
