//! The values of required members that a network document, or a command, may leave out.

use serde_json::{Map, Value as Json};

use super::kind::DeclaredKind;

/// Words that are the usual choice, by member.
const USUAL: [(&str, &str); 2] = [("type", "Default"), ("semantic", "AllOf")];

/// The value of a required member that is left out: that of its schema, the usual word, `false`, or
/// an empty list. `None` if it has none of these, so that it must be given.
pub fn default_of(name: &str, schema: &Json) -> Option<Json> {
    if let Some(default) = schema.get("default") {
        return Some(default.clone());
    }
    let words: Vec<&Json> = schema
        .get("enum")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .chain(schema.get("const"))
        .collect();
    if !words.is_empty() {
        let usual = USUAL
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, word)| Json::from(*word));
        return usual.filter(|usual| words.contains(&usual));
    }
    let kinds = schema.get("type")?;
    let all = kinds
        .as_array()
        .map_or_else(|| std::slice::from_ref(kinds), Vec::as_slice);
    let mut kinds = all
        .iter()
        .filter_map(Json::as_str)
        .filter(|kind| *kind != "null");
    match (kinds.next(), kinds.next()) {
        (Some("boolean"), None) => Some(Json::Bool(false)),
        (Some("array"), None)
            if schema
                .pointer("/items/type")
                .is_some_and(|kind| kind == "string") =>
        {
            Some(Json::Array(Vec::new()))
        }
        _ => None,
    }
}

/// The required members of a kind that have a default.
fn defaults(schema: &Json) -> impl Iterator<Item = (&str, Json)> {
    let required = schema
        .get("required")
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter_map(Json::as_str);
    required.filter_map(move |name| {
        Some((
            name,
            default_of(name, schema.get("properties")?.get(name)?)?,
        ))
    })
}

/// Makes a schema no longer require the members that have a default.
pub(super) fn relax(schema: &mut Json) {
    let defaulted: Vec<String> = defaults(schema).map(|(name, _)| name.to_owned()).collect();
    if let Some(required) = schema.get_mut("required").and_then(Json::as_array_mut) {
        required.retain(|name| {
            !name
                .as_str()
                .is_some_and(|name| defaulted.iter().any(|one| one == name))
        });
    }
}

/// Fills in the defaults of required members. Of a stored record, `type` stays what it is, because
/// it cannot be changed.
pub(super) fn fill(of: &DeclaredKind, members: &mut Map<String, Json>, stored: Option<&Json>) {
    for (name, default) in defaults(&of.schema) {
        let kept = stored
            .and_then(|stored| stored.get(name))
            .filter(|_| name == "type" || of.fixed.contains(&name));
        members
            .entry(name)
            .or_insert_with(|| kept.cloned().unwrap_or(default));
    }
}
