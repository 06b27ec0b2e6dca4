//! Bodies generated from schemas: a minimal valid one, a complete one, and one fault per member.

use std::fmt;

use serde_json::{Map, Value as Json, json};

/// One step of the path to a value in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Member(String),
    Item(usize),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(name) => f.write_str(name),
            Self::Item(index) => write!(f, "{index}"),
        }
    }
}

impl From<&str> for Step {
    fn from(name: &str) -> Self {
        Self::Member(name.into())
    }
}

/// The alternatives of a schema, none of which has alternatives at the top.
pub fn forms(schema: &Json) -> Vec<Json> {
    if schema["type"] == "array" {
        let whole = |items| json!({ "type": "array", "items": items, "minItems": 1 });
        return forms(&schema["items"]).into_iter().map(whole).collect();
    }
    let Some(several) = schema["oneOf"].as_array() else {
        return vec![schema.clone()];
    };
    let with_common = |form: &Json| {
        let mut whole = form.clone();
        let members = schema["properties"]
            .as_object()
            .cloned()
            .unwrap_or_default();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        whole["properties"].as_object_mut().unwrap().extend(members);
        let own = whole
            .as_object_mut()
            .unwrap()
            .entry("required")
            .or_insert_with(|| json!([]));
        own.as_array_mut().unwrap().extend(required);
        whole
    };
    several.iter().map(with_common).collect()
}

/// The first alternative of a schema that is not null.
fn plain(schema: &Json) -> &Json {
    let several = ["anyOf", "oneOf"]
        .into_iter()
        .find_map(|word| schema[word].as_array());
    several.map_or(schema, |forms| {
        plain(forms.iter().find(|form| form["type"] != "null").unwrap())
    })
}

/// The JSON type of a schema.
fn kind(schema: &Json) -> &str {
    let types = &schema["type"];
    let first = || {
        types
            .as_array()?
            .iter()
            .find(|one| **one != "null")?
            .as_str()
    };
    types.as_str().or_else(first).unwrap_or("string")
}

/// A valid value: with the required members only, or with all.
pub fn minimal_body(schema: &Json, all: bool) -> Json {
    let schema = plain(schema);
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(values) = schema["enum"].as_array() {
        return values
            .iter()
            .find(|value| !value.is_null())
            .unwrap()
            .clone();
    }
    match kind(schema) {
        "object" => {
            let required = |name: &str| is_required(schema, name);
            let members = schema["properties"]
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, _)| all || required(name));
            Json::Object(
                members
                    .map(|(name, member)| (name.clone(), minimal_body(member, all)))
                    .collect::<Map<_, _>>(),
            )
        }
        "array"
            if all
                || schema["minItems"]
                    .as_u64()
                    .is_some_and(|minimal_body| minimal_body > 0) =>
        {
            json!([minimal_body(&schema["items"], all)])
        }
        "array" => json!([]),
        "boolean" => json!(true),
        "integer" | "number" => json!(schema["minimum"].as_i64().unwrap_or_default()),
        _ => match schema["format"].as_str() {
            Some("date-time") => json!("2999-01-01T00:00:00.000Z"),
            Some("uuid") => json!("5f0c7f6e-3b1c-4d57-9a20-6b1f0f6f5e11"),
            _ => json!(
                "x".repeat(usize::try_from(schema["minLength"].as_u64().unwrap_or(1)).unwrap())
            ),
        },
    }
}

fn is_required(schema: &Json, name: &str) -> bool {
    schema["required"]
        .as_array()
        .is_some_and(|names| names.iter().any(|required| required == name))
}

/// A body with another value, or none, at a path.
pub fn put(mut body: Json, path: &[Step], value: Option<Json>) -> Json {
    let Some((last, before)) = path.split_last() else {
        return value.unwrap_or_default();
    };
    let mut at = &mut body;
    for step in before {
        at = match step {
            Step::Member(name) => &mut at[name],
            Step::Item(index) => &mut at[index],
        };
    }
    match (last, value) {
        (Step::Member(name), Some(value)) => at[name] = value,
        (Step::Item(index), Some(value)) => at[index] = value,
        (Step::Member(name), None) => drop(at.as_object_mut().unwrap().shift_remove(name)),
        (Step::Item(index), None) => drop(at.as_array_mut().unwrap().remove(*index)),
    }
    body
}

/// A fault at one place of a body.
pub struct Probe {
    pub path: Vec<Step>,
    /// `None`: the value is missing.
    pub value: Option<Json>,
    pub fault: Fault,
}

/// The kind of fault.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A value of another JSON type or of an unknown format: the body cannot be parsed.
    Kind,
    /// A value of the right type that breaks a rule.
    Rule,
}

/// All single faults of a body of this schema.
pub fn probes(schema: &Json, body: &Json) -> Vec<Probe> {
    let mut found = Vec::new();
    within(schema, body, &mut Vec::new(), &mut found);
    found
}

fn within(schema: &Json, body: &Json, path: &mut Vec<Step>, found: &mut Vec<Probe>) {
    let schema = plain(schema);
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.as_str().into());
        let mut add = |value, fault| {
            found.push(Probe {
                path: path.clone(),
                value,
                fault,
            })
        };
        if is_required(schema, name) {
            add(None, Fault::Rule);
            // A nullable map or list may be null.
            if !member["type"]
                .as_array()
                .is_some_and(|types| types.contains(&json!("null")))
            {
                add(Some(Json::Null), Fault::Rule);
            }
            // A blank is not one of the allowed values; elsewhere a blank counts as absent, or a
            // rule of the kind decides.
            if plain(member).get("enum").is_some() {
                add(Some(json!("")), Fault::Rule);
            }
        }
        of_kind(plain(member), &mut add);
        within(member, &body[name], path, found);
        path.pop();
    }
    if kind(schema) == "array" && body.get(0).is_some() {
        path.push(Step::Item(0));
        let mut add = |value, fault| {
            found.push(Probe {
                path: path.clone(),
                value,
                fault,
            })
        };
        of_kind(plain(&schema["items"]), &mut add);
        within(&schema["items"], &body[0], path, found);
        path.pop();
    }
}

/// Values that a schema rejects.
fn of_kind(schema: &Json, add: &mut impl FnMut(Option<Json>, Fault)) {
    let others: &[Json] = match kind(schema) {
        "object" => &[json!("x"), json!([])],
        "array" => &[json!("x"), json!({ "a": 1 })],
        "boolean" => &[json!("true"), json!(1)],
        "integer" => &[json!("5"), json!(1.5), json!(1e300), json!(u64::MAX)],
        _ => &[json!(5), json!(["x"])],
    };
    others
        .iter()
        .for_each(|value| add(Some(value.clone()), Fault::Kind));
    if schema.get("enum").is_some() {
        add(Some(json!("nonsense")), Fault::Rule);
    }
    if schema.get("const").is_some() {
        // This member alone decides which form the body has.
        add(Some(json!("nonsense")), Fault::Kind);
        add(Some(json!("")), Fault::Rule);
    }
    if schema["format"] == "date-time" {
        add(Some(json!("yesterday")), Fault::Kind);
    }
    let next = |bound: &str, by: i64| {
        schema[bound]
            .as_i64()
            .and_then(|bound| bound.checked_add(by))
    };
    [next("minimum", -1), next("maximum", 1)]
        .into_iter()
        .flatten()
        .for_each(|value| add(Some(json!(value)), Fault::Rule));
    if let Some(most) = schema["maxLength"].as_u64() {
        add(
            Some(json!("x".repeat(usize::try_from(most).unwrap() + 1))),
            Fault::Rule,
        );
    }
}
