//! Lenient reading of a body by its schema: case-insensitive names, nulls and blanks that are
//! equivalent to absent members, and records where their ids are expected.

use serde_json::{Map, Value as Json};

/// Renames members that differ from the schema's names only in case: clients rely on this.
pub(crate) fn correct_case(json: &mut Json, schema: &Json) {
    match json {
        Json::Object(members) if is_described(schema) => {
            let is_known = |name: &String| member_schema(schema, name).is_some();
            if !members.keys().all(is_known) {
                let (known, others): (Map<_, _>, Map<_, _>) = std::mem::take(members)
                    .into_iter()
                    .partition(|(name, _)| is_known(name));
                *members = known;
                for (name, member) in others {
                    members
                        .entry(find_ignoring_case(&name, schema).unwrap_or(name))
                        .or_insert(member);
                }
            }
            each_member(members, schema, correct_case);
        }
        Json::Array(items) => each_item(items, schema, correct_case),
        _ => {}
    }
}

/// Like [`correct_case`], for the body of a PATCH: the names of its members are case-sensitive.
/// Names within lists are not, because a PATCH replaces lists as a whole.
pub(crate) fn correct_case_in_lists(json: &mut Json, schema: &Json) {
    match json {
        Json::Object(members) if is_described(schema) => {
            each_member(members, schema, correct_case_in_lists)
        }
        Json::Array(_) => correct_case(json, schema),
        _ => {}
    }
}

/// The member with this name, ignoring case.
fn find_ignoring_case(name: &str, schema: &Json) -> Option<String> {
    let forms = schema
        .get("oneOf")
        .and_then(Json::as_array)
        .into_iter()
        .flatten();
    let described = std::iter::once(schema)
        .chain(forms)
        .filter_map(|form| form.get("properties")?.as_object());
    described
        .flat_map(Map::keys)
        .find(|known| known.eq_ignore_ascii_case(name))
        .cloned()
}

fn each_member(members: &mut Map<String, Json>, schema: &Json, act: fn(&mut Json, &Json)) {
    for (name, member) in members {
        if let Some(inner) = member_schema(schema, name) {
            act(member, inner);
        }
    }
}

fn each_item(items: &mut [Json], schema: &Json, act: fn(&mut Json, &Json)) {
    if let Some(inner) = schema.get("items") {
        for item in items {
            act(item, inner);
        }
    }
}

/// Replaces an object that stands for a record, as answers show it, by the id of the record where
/// the schema expects a text, so that what a GET answered can be sent back.
pub(crate) fn records_to_ids(json: &mut Json, schema: &Json) {
    match json {
        Json::Object(members) if is_described(schema) => {
            each_member(members, schema, records_to_ids)
        }
        Json::Object(members)
            if is_text(schema) && members.get("entity").is_some_and(Json::is_string) =>
        {
            if let Some(id) = members.get("id").filter(|id| id.is_string()).cloned() {
                *json = id;
            }
        }
        Json::Array(items) => each_item(items, schema, records_to_ids),
        _ => {}
    }
}

/// Removes members that are null. A map keeps its null values, unless the schema of the values does
/// not allow null.
pub(crate) fn drop_nulls(json: &mut Json, schema: &Json) {
    match json {
        Json::Object(members) if is_described(schema) => {
            members.retain(|_, member| !member.is_null());
            each_member(members, schema, drop_nulls);
        }
        Json::Object(members) if !takes_null(schema.get("additionalProperties")) => {
            members.retain(|_, member| !member.is_null())
        }
        Json::Array(items) => each_item(items, schema, drop_nulls),
        _ => {}
    }
}

/// Removes blank members that count as absent.
pub(crate) fn drop_blanks(json: &mut Json, schema: &Json) {
    match json {
        Json::Object(members) if is_described(schema) => {
            members.retain(|name, member| *member != "" || !may_be_blank(schema, name));
            each_member(members, schema, drop_blanks);
        }
        Json::Array(items) => each_item(items, schema, drop_blanks),
        _ => {}
    }
}

/// Whether a blank member counts as absent: it is optional, and is a choice or has a minimum
/// length.
fn may_be_blank(schema: &Json, name: &str) -> bool {
    let required = schema
        .get("required")
        .and_then(Json::as_array)
        .is_some_and(|names| names.iter().any(|required| required == name));
    !required
        && member_schema(schema, name)
            .is_some_and(|member| is_choice(member) || member.get("minLength").is_some())
}

/// Whether a schema allows a text.
fn is_text(schema: &Json) -> bool {
    schema.get("type").is_some_and(|of| {
        of == "string"
            || of
                .as_array()
                .is_some_and(|of| of.contains(&"string".into()))
    })
}

/// Whether a schema is a choice of words.
pub(crate) fn is_choice(schema: &Json) -> bool {
    schema.get("enum").is_some()
}

/// Whether the values of a map may be null: allowed unless a type without null is given.
fn takes_null(schema: Option<&Json>) -> bool {
    schema
        .and_then(|schema| schema.get("type"))
        .is_none_or(|of| {
            of == "null" || of.as_array().is_some_and(|of| of.contains(&"null".into()))
        })
}

/// Whether a schema describes an object with named members, not a map.
pub(crate) fn is_described(schema: &Json) -> bool {
    schema.get("properties").is_some() || schema.get("oneOf").is_some()
}

/// The schema of a member, also in a variant.
pub(crate) fn member_schema<'s>(schema: &'s Json, name: &str) -> Option<&'s Json> {
    let found = schema.get("properties").and_then(|p| p.get(name));
    let forms = schema.get("oneOf").and_then(Json::as_array);
    found
        .or_else(|| {
            forms?
                .iter()
                .find_map(|form| form.get("properties")?.get(name))
        })
        .map(described)
}

/// The schema without the alternative null.
pub(crate) fn described(found: &Json) -> &Json {
    let either = found.get("anyOf").and_then(Json::as_array);
    either
        .and_then(|forms| forms.iter().find(|form| form.get("properties").is_some()))
        .unwrap_or(found)
}
