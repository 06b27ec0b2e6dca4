//! The names and the JSON schemas of bodies: what PUT and PATCH require and ignore.

use serde_json::{Map, Value as Json};

/// The name of a body in the OpenAPI document: `ServiceCreate` for `service` and `Create`.
pub(crate) fn title(kind: &str, verb: &str) -> String {
    let mut letters = kind.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect::<String>())
        .unwrap_or_default()
        + verb
}

/// `ServiceCreate` as `serviceCreate`.
pub(crate) fn lower_first(name: &str) -> String {
    let mut letters = name.chars();
    letters
        .next()
        .map(|first| first.to_lowercase().chain(letters).collect())
        .unwrap_or_default()
}

/// The schema of a PUT, made from the schema of a POST. `fixed` members, which only creation sets,
/// are not required. `demanded` members are required. There are no defaults.
pub(crate) fn replace_schema(mut schema: Json, fixed: &[&str], demanded: &[&str]) -> Json {
    if let Some(required) = schema.get_mut("required").and_then(Json::as_array_mut) {
        required.retain(|name| !name.as_str().is_some_and(|name| fixed.contains(&name)));
        required.splice(0..0, demanded.iter().map(|name| Json::from(*name)));
    }
    strip(&mut schema, &["default"]);
    mark_fixed(&mut schema, fixed);
    schema
}

/// The schema of a PATCH, made from the schema of a POST: nothing is required except the tag of a
/// variant, and null leaves a member unchanged.
pub(crate) fn patch_schema(mut schema: Json, fixed: &[&str]) -> Json {
    strip(&mut schema, &["default"]);
    optional(&mut schema);
    mark_fixed(&mut schema, fixed);
    schema
}

/// Marks the members that only creation sets, for forms.
pub(super) fn mark_fixed(schema: &mut Json, fixed: &[&str]) {
    for name in fixed {
        if let Some(member) = schema
            .pointer_mut(&format!("/properties/{name}"))
            .and_then(Json::as_object_mut)
        {
            member.insert(FIXED.into(), true.into());
        }
    }
}

/// Marks the schema of a member that only creation sets.
pub(super) const FIXED: &str = "x-overkeep-fixed";

/// Marks the schema of an object whose required members are required in a PATCH too, although it is
/// merged.
pub(super) const REQUIRED_ALWAYS: &str = "x-required-always";

pub(super) fn strip(schema: &mut Json, keywords: &[&str]) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    for keyword in keywords {
        object.shift_remove(*keyword);
    }
    for member in members_mut(object) {
        strip(member, keywords);
    }
    for form in object
        .get_mut("oneOf")
        .and_then(Json::as_array_mut)
        .into_iter()
        .flatten()
    {
        strip(form, keywords);
    }
}

pub(super) fn optional(schema: &mut Json) {
    let Some(object) = schema
        .as_object_mut()
        .filter(|object| !object.contains_key(REQUIRED_ALWAYS))
    else {
        return;
    };
    let tags: Vec<Json> = object
        .get("properties")
        .and_then(Json::as_object)
        .into_iter()
        .flatten()
        .filter(|(_, member)| member.get("const").is_some())
        .map(|(name, _)| name.clone().into())
        .collect();
    object.shift_remove("required");
    if !tags.is_empty() {
        object.insert("required".into(), tags.into());
    }
    for member in members_mut(object).filter(|member| member.get("const").is_none()) {
        optional(member);
        may_be_null(member);
    }
    for keyword in ["oneOf", "anyOf"] {
        for form in object
            .get_mut(keyword)
            .and_then(Json::as_array_mut)
            .into_iter()
            .flatten()
        {
            optional(form);
        }
    }
}

/// Changes a schema so that it also allows null.
pub(super) fn may_be_null(schema: &mut Json) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    let null = || Json::from("null");
    match object.get_mut("type") {
        Some(Json::Array(kinds)) if !kinds.contains(&null()) => kinds.push(null()),
        Some(Json::Array(_)) => {}
        Some(kind) => *kind = Json::from(vec![kind.take(), null()]),
        None => {
            if let Some(forms) = object.shift_remove("oneOf") {
                let forms = Json::Object(Map::from_iter([("oneOf".to_owned(), forms)]));
                object.insert("anyOf".into(), vec![forms].into());
            }
            if let Some(forms) = object.get_mut("anyOf").and_then(Json::as_array_mut) {
                forms.push(Json::Object(Map::from_iter([("type".to_owned(), null())])));
            }
        }
    }
    if let Some(values) = object
        .get_mut("enum")
        .and_then(Json::as_array_mut)
        .filter(|values| !values.contains(&Json::Null))
    {
        values.push(Json::Null);
    }
}

pub(super) fn members_mut(object: &mut Map<String, Json>) -> impl Iterator<Item = &mut Json> {
    object
        .get_mut("properties")
        .and_then(Json::as_object_mut)
        .into_iter()
        .flat_map(|members| members.values_mut())
}
