//! Members of a body as flags: their names, their values, and the body made from them.

use std::str::FromStr;

use clap::{
    Arg, ArgAction, ArgMatches,
    builder::{
        BoolValueParser, PossibleValue, PossibleValuesParser, RangedI64ValueParser,
        TypedValueParser, ValueParser,
    },
};
use model::{
    clock::Clock,
    config::{InvalidText, Span},
    entity::kebab,
};
use rest::default_of;
use serde_json::{Map, Value as Json};

/// Nested objects get flags of their own up to this depth.
const DEPTH: usize = 4;
/// How a point in time is written.
const TIME_HELP: &str =
    "A date such as 2026-12-31T00:00:00Z, or a duration from now on, such as 7d";
/// Short aliases of members.
const ALIASES: [(&str, &[&str]); 1] = [("role-attributes", &["role", "roles"])];

/// A member of a body, at any depth.
pub(crate) struct Member {
    pub path: Vec<String>,
    /// The flag; if a flag of the program has the same name, it becomes `member-NAME` (`tree.rs`).
    pub flag: String,
    pub schema: Json,
    /// Required by the schema, together with every object around it.
    pub required: bool,
}

/// The value type of a flag.
enum Shape {
    Text,
    /// One of these words.
    Choice(Vec<String>),
    Integer,
    Number,
    Bool,
    /// A list of texts, or of these words.
    List(Vec<String>),
    Map,
    Any,
}

/// The members in a body's schema.
pub(crate) fn members(schema: &Json) -> Vec<Member> {
    let mut found = Vec::new();
    collect(schema, &[], true, &mut found);
    found
}

fn collect(schema: &Json, above: &[String], demanded: bool, found: &mut Vec<Member>) {
    let variants = schema
        .get("oneOf")
        .and_then(Json::as_array)
        .into_iter()
        .flatten();
    let parts: Vec<(&Json, bool)> = std::iter::once((schema, demanded))
        .chain(variants.map(|variant| (variant, false)))
        .collect();
    for (part, demanded) in parts {
        let required: Vec<&str> = part
            .get("required")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .collect();
        for (name, member) in part
            .get("properties")
            .and_then(Json::as_object)
            .into_iter()
            .flatten()
        {
            let path: Vec<String> = above.iter().cloned().chain([name.clone()]).collect();
            let (member, required) = (
                without_null(member),
                demanded && required.contains(&name.as_str()),
            );
            if path.len() < DEPTH && member.get("properties").is_some() {
                collect(&member, &path, required, found);
                continue;
            }
            match found.iter_mut().find(|known| known.path == path) {
                Some(known) => add_words(&mut known.schema, &member),
                None => found.push(Member {
                    flag: flag(&path),
                    path,
                    schema: member,
                    required,
                }),
            }
        }
    }
}

/// A schema that allows null or one other schema, as the other one.
fn without_null(schema: &Json) -> Json {
    let choices = schema.get("anyOf").and_then(Json::as_array);
    let mut others = choices
        .into_iter()
        .flatten()
        .filter(|one| one.get("type").is_none_or(|kind| kind != "null"));
    match (others.next(), others.next()) {
        (Some(only), None) => {
            let mut only = only.clone();
            if let (Some(words), Some(object)) = (schema.get("description"), only.as_object_mut()) {
                object.entry("description").or_insert_with(|| words.clone());
            }
            only
        }
        _ => schema.clone(),
    }
}

/// Merges the tag values of a body's variants into one choice.
fn add_words(known: &mut Json, other: &Json) {
    let words: Vec<Json> = words_of(known)
        .into_iter()
        .chain(words_of(other))
        .map(Json::from)
        .collect();
    if let Some(object) = known.as_object_mut().filter(|_| !words.is_empty()) {
        object.shift_remove("const");
        object.insert("enum".into(), words.into());
    }
}

fn words_of(schema: &Json) -> Vec<String> {
    let choice = schema
        .get("enum")
        .and_then(Json::as_array)
        .into_iter()
        .flatten();
    choice
        .chain(schema.get("const"))
        .filter_map(Json::as_str)
        .map(str::to_owned)
        .collect()
}

fn flag(path: &[String]) -> String {
    path.iter()
        .map(|part| kebab(part))
        .collect::<Vec<_>>()
        .join(".")
}

fn shape(schema: &Json) -> Shape {
    let words = words_of(schema);
    if !words.is_empty() {
        return Shape::Choice(words);
    }
    let kind = schema.get("type");
    let one = kind.and_then(Json::as_str).or_else(|| {
        kind?
            .as_array()?
            .iter()
            .filter_map(Json::as_str)
            .find(|kind| *kind != "null")
    });
    let several = kind
        .and_then(Json::as_array)
        .is_some_and(|kinds| kinds.iter().filter(|kind| **kind != "null").count() > 1);
    match one.filter(|_| !several) {
        Some("string") => Shape::Text,
        Some("integer") => Shape::Integer,
        Some("number") => Shape::Number,
        Some("boolean") => Shape::Bool,
        Some("array") => match schema.pointer("/items/type").and_then(Json::as_str) {
            Some("string") => Shape::List(schema.get("items").map(words_of).unwrap_or_default()),
            _ => Shape::Any,
        },
        Some("object") if schema.get("properties").is_none() => Shape::Map,
        _ => Shape::Any,
    }
}

/// The flag for a value of a schema.
pub(crate) fn argument(id: String, flag: &str, schema: &Json) -> Arg {
    let help = schema
        .get("description")
        .and_then(Json::as_str)
        .unwrap_or_default()
        .to_owned();
    let arg = Arg::new(id)
        .long(flag.to_owned())
        .help(help.clone())
        .action(ArgAction::Set);
    let aliases = ALIASES
        .iter()
        .find(|(name, _)| *name == flag)
        .map_or(&[] as &[&str], |(_, aliases)| aliases);
    let arg = arg.visible_aliases(aliases.iter().copied());
    match shape(schema) {
        Shape::Text if is_time(schema) => {
            let words = if help.is_empty() {
                TIME_HELP.to_owned()
            } else {
                format!("{}. {TIME_HELP}", help.trim_end_matches('.'))
            };
            arg.value_name("TIME")
                .help(words)
                .value_parser(ValueParser::new(time))
        }
        Shape::Text => arg.value_name("TEXT").value_parser(text_parser()),
        Shape::Choice(words) => arg
            .value_name("WORD")
            .value_parser(PossibleValuesParser::new(words).map(Json::String)),
        Shape::Integer => arg
            .value_name("N")
            .allow_negative_numbers(true)
            .value_parser(RangedI64ValueParser::<i64>::new().map(Json::from)),
        Shape::Number => arg
            .value_name("N")
            .allow_negative_numbers(true)
            .value_parser(ValueParser::new(|text: &str| {
                text.parse::<f64>().map(Json::from)
            })),
        Shape::Bool => arg
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(BoolValueParser::new().map(Json::from)),
        Shape::List(words) => {
            let arg = arg.action(ArgAction::Append).value_delimiter(',');
            if words.is_empty() {
                return arg.value_name("TEXT,...").value_parser(text_parser());
            }
            // A blank text is an empty list.
            let words = words
                .into_iter()
                .map(PossibleValue::new)
                .chain([PossibleValue::new("").hide(true)]);
            arg.value_name("WORD,...")
                .value_parser(PossibleValuesParser::new(words).map(Json::String))
        }
        Shape::Map => arg
            .value_name("KEY=VALUE")
            .action(ArgAction::Append)
            .value_parser(ValueParser::new(pairs)),
        Shape::Any => arg.value_name("JSON").value_parser(ValueParser::new(any)),
    }
}

fn text_parser() -> ValueParser {
    ValueParser::new(|text: &str| Ok::<Json, std::convert::Infallible>(text.into()))
}

/// Whether the value is a point in time.
fn is_time(schema: &Json) -> bool {
    schema
        .get("format")
        .is_some_and(|format| format == "date-time")
}

/// Why a text is no value of its flag.
#[derive(Debug, thiserror::Error)]
enum ValueError {
    #[error("{0}")]
    Duration(InvalidText),
    #[error("is not valid JSON: {0}")]
    Json(serde_json::Error),
    #[error("is neither KEY=VALUE nor a JSON object")]
    Pair,
}

/// Reads a point in time: a date, which the controller checks, or a duration from now on.
fn time(text: &str) -> Result<Json, ValueError> {
    let is_duration = text.starts_with(|first: char| first.is_ascii_digit()) && !text.contains('-');
    if !is_duration {
        return Ok(text.into());
    }
    let lasts = Span::from_str(text).map_err(ValueError::Duration)?;
    Ok(Clock::system()
        .now()
        .plus(lasts.duration())
        .to_string()
        .into())
}

fn any(text: &str) -> Result<Json, ValueError> {
    serde_json::from_str(text).map_err(ValueError::Json)
}

/// Parses `key=value`, or a JSON object. A value that is not a number, `true`, `false` or `null` is
/// text.
fn pairs(text: &str) -> Result<Json, ValueError> {
    if text.starts_with('{') {
        return any(text);
    }
    let (key, value) = text.split_once('=').ok_or(ValueError::Pair)?;
    let value = serde_json::from_str(value)
        .ok()
        .filter(|json: &Json| !json.is_object() && !json.is_array())
        .unwrap_or_else(|| value.into());
    Ok(Json::Object(Map::from_iter([(key.to_owned(), value)])))
}

/// The value given for a flag; `None` if it was not given.
pub(crate) fn flag_value(matches: &ArgMatches, id: &str, schema: &Json) -> Option<Json> {
    let values: Vec<Json> = matches
        .try_get_many::<Json>(id)
        .ok()
        .flatten()?
        .cloned()
        .collect();
    match shape(schema) {
        // A single blank text is an empty list.
        Shape::List(_) => Some(
            joined(&values)
                .into_iter()
                .filter(|value| *value != "")
                .collect(),
        ),
        Shape::Map => Some(Json::Object(
            values
                .into_iter()
                .filter_map(|value| value.as_object().cloned())
                .flatten()
                .collect(),
        )),
        _ => values.into_iter().next(),
    }
}

/// Joins items that were split at a comma inside double quotes: `"@a,b"` is one item, and two
/// quotes in it are one (RFC 4180 section 2). An item whose quotes do not end stays as it is.
fn joined(pieces: &[Json]) -> Vec<Json> {
    let (mut items, mut rest) = (Vec::new(), pieces);
    while let Some((first, others)) = rest.split_first() {
        let mut text = first.as_str().unwrap_or_default().to_owned();
        let starts = text.starts_with('"');
        let mut after = others;
        while starts
            && unquoted(&text).is_none()
            && let Some((next, others)) = after.split_first()
        {
            text = format!("{text},{}", next.as_str().unwrap_or_default());
            after = others;
        }
        let (item, left) =
            unquoted(&text).map_or_else(|| (first.clone(), others), |item| (item.into(), after));
        items.push(item);
        rest = left;
    }
    items
}

/// The text in double quotes; `None` if it does not begin and end with them.
fn unquoted(text: &str) -> Option<String> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    (!inside.replace("\"\"", "").contains('"')).then(|| inside.replace("\"\"", "\""))
}

/// Sets the value at a path; creates missing objects.
pub(crate) fn put(body: &mut Json, path: &[String], value: Json) {
    let Some((name, rest)) = path.split_first() else {
        *body = value;
        return;
    };
    if !body.is_object() {
        *body = Json::Object(Map::new());
    }
    if let Some(object) = body.as_object_mut() {
        put(
            object.entry(name.clone()).or_insert(Json::Null),
            rest,
            value,
        );
    }
}

/// The value at a path.
pub(crate) fn at<'j>(body: &'j Json, path: &[String]) -> Option<&'j Json> {
    path.iter().try_fold(body, |body, name| body.get(name))
}

/// The default of a required member of a new record. `None` if it has none: then the controller's
/// error names the member.
pub(crate) fn default_value(member: &Member) -> Option<Json> {
    let name = member.path.last()?;
    if member.required {
        default_of(name, &member.schema)
    } else {
        None
    }
}
