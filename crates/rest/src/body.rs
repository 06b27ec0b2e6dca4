//! Reading requests: JSON bodies by their schema, query strings, and the semantics of PUT and
//! PATCH.

use std::{borrow::Cow, sync::Arc};

use actix_web::{http::header::HeaderMap, web::Bytes};
use model::{
    error::{Error, Result},
    schema::Checker,
};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value as Json};

use super::{
    hidden_members,
    normalize::{
        correct_case, correct_case_in_lists, drop_blanks, drop_nulls, is_choice, is_described,
        member_schema, records_to_ids,
    },
    openapi::operation::{BodyShape, Parameter, ParameterLocation, Schemas},
    unknown_members,
};

/// A request from which the arguments of a function are taken.
pub struct Incoming<'r> {
    /// The values of the path's parameters, in order.
    pub(crate) segments: Vec<String>,
    pub query: &'r str,
    pub headers: &'r HeaderMap,
    pub body: Bytes,
    /// The parameters that the operation describes.
    pub parameters: &'r [Parameter],
    pub shape: Option<&'r BodyShape>,
    /// Unknown members of the body, collected while reading it.
    pub unknown: Vec<String>,
    /// Members with names that show something else than they hold.
    pub hidden: Vec<String>,
}

impl Incoming<'_> {
    /// Removes and returns the next path parameter.
    pub(crate) fn next_segment(&mut self) -> String {
        if self.segments.is_empty() {
            String::new()
        } else {
            self.segments.remove(0)
        }
    }

    /// The value of a header, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The value of a list header.
    pub fn list(&self, name: &str) -> Option<Cow<'_, str>> {
        list(self.headers, name)
    }

    /// The schema of the JSON body.
    pub fn schema(&self) -> Arc<Json> {
        self.shape
            .map(|shape| shape.schema.clone())
            .unwrap_or_default()
    }

    /// The checked JSON body, without members that are equivalent to absent ones: null, and a blank
    /// for an optional choice or an optional text with a minimum length. `null` as the whole body
    /// counts as empty. Member names are case-insensitive.
    ///
    /// # Errors
    /// The body is missing, is not JSON, or violates the schema.
    pub fn json(&mut self) -> Result<Json> {
        let Some(shape) = self.shape else {
            return Ok(Json::Null);
        };
        let mut json = self.parsed(shape)?;
        correct_case(&mut json, &shape.schema);
        records_to_ids(&mut json, &shape.schema);
        drop_nulls(&mut json, &shape.schema);
        drop_blanks(&mut json, &shape.schema);
        self.check_shape(&json, check(&json, shape), shape)
            .map(|()| json)
    }

    /// The checked JSON body of a PATCH of a record. Member names are case-sensitive, except within
    /// lists. Only null is equivalent to absent.
    ///
    /// # Errors
    /// Those of [`Incoming::json`].
    pub fn patch(&mut self) -> Result<Json> {
        let Some(shape) = self.shape else {
            return Ok(Json::Null);
        };
        let mut json = self.parsed(shape)?;
        correct_case_in_lists(&mut json, &shape.schema);
        records_to_ids(&mut json, &shape.schema);
        drop_nulls(&mut json, &shape.schema);
        let mut without_blanks = json.clone();
        drop_blanks(&mut without_blanks, &shape.schema);
        self.check_shape(&json, check(&without_blanks, shape), shape)
            .map(|()| json)
    }

    /// Returns the result of the check, and reports unknown members: as errors if the query asks
    /// for strict checks or the body is invalid anyway, otherwise only by name.
    fn check_shape(&mut self, json: &Json, checked: Result<()>, shape: &BodyShape) -> Result<()> {
        let unknown = unknown_members::unknown(json, &shape.schema);
        let hidden = hidden_members::hidden(json);
        let is_strict = unknown_members::is_asked(self.query)?;
        if is_strict || checked.is_err() {
            let refused = hidden
                .into_iter()
                .filter(|_| is_strict && !hidden_members::are_accepted(self.query))
                .map(|one| Err(one.refused()));
            return Error::all(
                std::iter::once(checked)
                    .chain(unknown.into_iter().map(|one| Err(one.refused())))
                    .chain(refused),
            );
        }
        self.hidden.extend(hidden.into_iter().map(|one| one.path));
        self.unknown.extend(unknown.into_iter().map(|one| one.path));
        Ok(())
    }

    fn parsed(&self, shape: &BodyShape) -> Result<Json> {
        if self.body.trim_ascii().is_empty() {
            return Err(Error::missing(&shape.name, "a body is required", ""));
        }
        let json: Json =
            serde_json::from_slice(&self.body).map_err(|e| Error::Unparseable(e.to_string()))?;
        let is_list = shape.schema.get("type").is_some_and(|of| of == "array");
        Ok(match json {
            Json::Null if is_list => Json::Array(Vec::new()),
            Json::Null => Json::Object(Map::new()),
            json => json,
        })
    }
}

fn check(json: &Json, shape: &BodyShape) -> Result<()> {
    let uncountable = uncountable(json, &shape.schema).map(|number| {
        format!("{number} is not allowed: a whole number of at most 64 bits is expected")
    });
    let counted = uncountable.map_or(Ok(()), |reason| Err(Error::Unparseable(reason)));
    Error::all([
        counted,
        shape
            .checker
            .as_ref()
            .map_or(Ok(()), |checker| checker.check_body(json)),
    ])
}

/// A list header: several lines are one list (RFC 9110 section 5.3). A value that is not text
/// matches nothing, but counts as present.
pub(crate) fn list<'h>(headers: &'h HeaderMap, name: &str) -> Option<Cow<'h, str>> {
    let lines = headers
        .get_all(name)
        .map(|line| String::from_utf8_lossy(line.as_bytes()));
    lines.reduce(|list, line| format!("{list},{line}").into())
}

/// A number that cannot be read as an integer where the schema expects one: it has a fraction or an
/// exponent, or exceeds 64 bits. JSON schema accepts some of these as integers.
fn uncountable<'j>(json: &'j Json, schema: &Json) -> Option<&'j Json> {
    match json {
        Json::Number(number) => {
            let kinds = schema.get("type");
            let is_integer = kinds.is_some_and(|of| {
                of == "integer"
                    || of
                        .as_array()
                        .is_some_and(|of| of.contains(&"integer".into()))
            });
            (is_integer && number.as_i64().is_none()).then_some(json)
        }
        Json::Object(members) => members
            .iter()
            .find_map(|(name, member)| uncountable(member, member_schema(schema, name)?)),
        Json::Array(items) => items
            .iter()
            .find_map(|item| uncountable(item, schema.get("items")?)),
        _ => None,
    }
}

/// Converts checked JSON to a value.
///
/// # Errors
/// The type rejects what the schema accepts, such as `1.0` for an integer.
pub(crate) fn read<T: DeserializeOwned>(json: Json) -> Result<T> {
    serde_json::from_value(json).map_err(|e| Error::Unparseable(e.to_string()))
}

/// Converts JSON merged from a body and a record. Both may be valid while their combination is not.
///
/// # Errors
/// A member is missing, or contradicts the others.
pub(crate) fn read_whole<T: DeserializeOwned + JsonSchema>(mut json: Json) -> Result<T> {
    read(json.clone()).map_err(|fault| {
        let schema = Schemas::inline::<T>();
        drop_nulls(&mut json, &schema);
        drop_blanks(&mut json, &schema);
        let checked = Checker::own(&schema).and_then(|checker| checker.check_body(&json));
        checked.err().unwrap_or(fault)
    })
}

/// Converts a value to JSON.
///
/// # Errors
/// The value cannot be serialized, which is a defect.
pub(crate) fn write(value: &impl Serialize) -> Result<Json> {
    serde_json::to_value(value)
        .map_err(|e| Error::Internal(format!("cannot write a value as JSON: {e}")))
}

/// The result of a PUT on a stored draft: the body, with the stored values of `fixed` members,
/// which only creation sets, and of those `kept` members that the body leaves out.
pub(crate) fn replaced(stored: &Json, mut body: Json, fixed: &[&str], kept: &[&str]) -> Json {
    if let Some(members) = body.as_object_mut() {
        let kept = kept.iter().filter(|name| !members.contains_key(**name));
        let names: Vec<&str> = fixed.iter().chain(kept).copied().collect();
        for name in names {
            if let Some(value) = stored.get(name) {
                members.insert(name.into(), value.clone());
            }
        }
    }
    body
}

/// The result of a PATCH on a stored draft; `None` if it names no member. A member that is an
/// object with described members is merged; lists and maps are replaced; an empty map changes
/// nothing; a blank choice removes the value. `fixed` members are unchanged.
pub(crate) fn patched(stored: Json, body: &Json, schema: &Json, fixed: &[&str]) -> Option<Json> {
    let (Json::Object(mut merged), Json::Object(members)) = (stored, body) else {
        return None;
    };
    let mut named = false;
    for (name, value) in members
        .iter()
        .filter(|(_, value)| !value.is_null() && !is_all_null(value))
    {
        named = true;
        if fixed.contains(&name.as_str()) {
            continue;
        }
        let described = member_schema(schema, name);
        if *value == "" && described.is_some_and(is_choice) {
            merged.shift_remove(name);
            continue;
        }
        let whole = !described.is_some_and(is_described);
        let before = merged.get(name).cloned().unwrap_or(Json::Null);
        let after = match described {
            Some(inner) if !whole && value.is_object() && before.is_object() => {
                patched(before.clone(), value, inner, &[]).unwrap_or(before)
            }
            _ => value.clone(),
        };
        merged.insert(name.clone(), after);
    }
    named.then_some(Json::Object(merged))
}

/// Whether an object contains nothing but nulls.
fn is_all_null(value: &Json) -> bool {
    value
        .as_object()
        .is_some_and(|members| members.values().all(|v| v.is_null() || is_all_null(v)))
}

/// The values of a query string, typed by the described parameters. Blank numbers and blank choices
/// count as absent.
///
/// # Errors
/// A value does not have its parameter's type, or a required parameter is missing.
pub(crate) fn query_values(query: &str, parameters: &[Parameter]) -> Result<Map<String, Json>> {
    let mut values = Map::new();
    for (name, text) in form_urlencoded::parse(query.as_bytes()) {
        let Some(parameter) = parameters
            .iter()
            .find(|p| p.place == ParameterLocation::Query && p.name == name)
        else {
            continue;
        };
        match parameter.schema.get("type").and_then(Json::as_str) {
            Some("array") => {
                if let Json::Array(list) = values
                    .entry(name.into_owned())
                    .or_insert_with(|| Json::Array(Vec::new()))
                {
                    list.push(text.into_owned().into());
                }
            }
            _ if values.contains_key(&*name) => {}
            Some("integer") if text.is_empty() => {}
            _ if text.is_empty()
                && !parameter.required
                && parameter.schema.get("enum").is_some() => {}
            Some("integer") => {
                let number = text
                    .parse::<i64>()
                    .map_err(|_| Error::invalid(&*name, "must be an integer", &*text))?;
                values.insert(name.into_owned(), number.into());
            }
            _ => {
                values.insert(name.into_owned(), text.into_owned().into());
            }
        }
    }
    let missing = parameters.iter().find(|p| {
        p.place == ParameterLocation::Query && p.required && !values.contains_key(&p.name)
    });
    if let Some(parameter) = missing {
        return Err(Error::missing(&parameter.name, "is required", "[]"));
    }
    for (name, value) in &values {
        let schema = parameters
            .iter()
            .find(|p| p.place == ParameterLocation::Query && p.name == *name)
            .map(|p| &p.schema);
        let allowed = schema.and_then(|s| s.get("enum")).and_then(Json::as_array);
        if allowed.is_some_and(|allowed| !allowed.contains(value)) {
            let words: Vec<&str> = allowed
                .into_iter()
                .flatten()
                .filter_map(Json::as_str)
                .collect();
            return Err(Error::invalid(
                name,
                format!("must be one of {}", words.join(", ")),
                value.as_str().unwrap_or_default(),
            ));
        }
    }
    Ok(values)
}
