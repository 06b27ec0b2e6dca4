//! Example values of schemas.

use serde_json::{Map, Value as Json};

/// The example of a PEM body.
pub(crate) const PEM_REQUEST: &str =
    "-----BEGIN CERTIFICATE REQUEST-----\nMIIB...\n-----END CERTIFICATE REQUEST-----\n";

/// An example value of a schema: the example in the schema, or one composed of the examples of its
/// members. Members whose example is null are left out.
pub(crate) fn of(schema: &Json) -> Json {
    let first = |keyword: &str| {
        schema
            .get(keyword)
            .and_then(Json::as_array)
            .and_then(|values| values.first())
            .cloned()
    };
    if let Some(known) = first("examples")
        .or_else(|| schema.get("const").cloned())
        .or_else(|| first("enum"))
    {
        return known;
    }
    if let Some(form) = ["oneOf", "anyOf"]
        .iter()
        .find_map(|keyword| schema.get(keyword)?.as_array()?.first())
    {
        return together(of(form), members(schema));
    }
    let kind = match schema.get("type") {
        Some(Json::Array(kinds)) => kinds.first().and_then(Json::as_str),
        one => one.and_then(Json::as_str),
    };
    match kind {
        Some("object") | None => Json::Object(members(schema)),
        Some("array") => Json::Array(schema.get("items").map(of).into_iter().collect()),
        Some("boolean") => Json::Bool(false),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| 0.into()),
        _ => Json::String("text".into()),
    }
}

fn members(schema: &Json) -> Map<String, Json> {
    let members = schema.get("properties").and_then(Json::as_object);
    let samples = members
        .into_iter()
        .flatten()
        .map(|(name, member)| (name.clone(), of(member)));
    samples.filter(|(_, sample)| !sample.is_null()).collect()
}

fn together(form: Json, members: Map<String, Json>) -> Json {
    match form {
        Json::Object(mut form) => {
            form.extend(members);
            Json::Object(form)
        }
        other => other,
    }
}
