//! Makes API requests from a parsed command line.

use std::io::Read;

use clap::ArgMatches;
use serde_json::Value as Json;

use super::{
    grammar::{Grammar, Operation},
    members::{self, Member, at, default_value, put},
    names::NameLookup,
    operation_shape::{enrollment_methods, is_named, members_of, segments, takes_several},
    request::{ApiRequest, JSON},
};
use crate::cli::failure::CommandError;

/// The maximum bytes of a body read from a file or stdin.
const MAX_LENGTH: u64 = 64 << 20;

/// The requests of a command line: one, or one for each record to delete.
///
/// # Errors
/// A name is unknown, or a file cannot be read.
pub(crate) fn requests(
    names: &mut NameLookup<'_>,
    operation: &Operation,
    matches: &ArgMatches,
) -> Result<Vec<ApiRequest>, CommandError> {
    let grammar = names.grammar;
    let mut request = ApiRequest {
        method: operation.method.into(),
        ..ApiRequest::default()
    };
    parameters(grammar, operation, matches, &mut request);
    request.body = body(names, operation, matches)?;
    let values = |at: usize| -> Vec<String> {
        matches
            .try_get_many::<String>(&format!("path.{at}"))
            .ok()
            .flatten()
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    };
    let count = segments(&operation.path).len();
    let paths = if takes_several(operation) {
        values(0)
            .into_iter()
            .map(|value| names.path(operation, &[value]))
            .collect::<Result<Vec<_>, _>>()?
    } else {
        vec![names.path(operation, &(0..count).flat_map(values).collect::<Vec<_>>())?]
    };
    Ok(paths
        .into_iter()
        .map(|path| ApiRequest {
            path,
            ..request.clone()
        })
        .collect())
}

fn parameters(
    grammar: &Grammar,
    operation: &Operation,
    matches: &ArgMatches,
    request: &mut ApiRequest,
) {
    let described = grammar
        .described(operation)
        .get("parameters")
        .and_then(Json::as_array);
    for parameter in described.into_iter().flatten() {
        let text = |name: &str| {
            parameter
                .get(name)
                .and_then(Json::as_str)
                .unwrap_or_default()
        };
        let (name, place) = (text("name"), text("in"));
        if name == "strict" {
            request.query.push((name.into(), "true".into()));
            continue;
        }
        let schema = parameter.get("schema").unwrap_or(&Json::Null);
        let Some(value) = members::flag_value(matches, &format!("{place}.{name}"), schema) else {
            continue;
        };
        let values = if let Json::Array(values) = value {
            values
        } else {
            vec![value]
        };
        let values = values.iter().map(|value| {
            (
                name.to_owned(),
                value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned),
            )
        });
        if place == "header" {
            request.headers.extend(values)
        } else {
            request.query.extend(values)
        }
    }
}

/// The media type and the text of the body.
fn body(
    names: &mut NameLookup<'_>,
    operation: &Operation,
    matches: &ArgMatches,
) -> Result<Option<(String, String)>, CommandError> {
    let grammar = names.grammar;
    let Some((schema, media)) = grammar.body(operation) else {
        return Ok(None);
    };
    if schema.is_none() {
        let media = media.first().copied().unwrap_or("text/plain").to_owned();
        return Ok(file(matches, "body")?.map(|text| (media, text)));
    }
    let mut body = match file(matches, "json")? {
        Some(text) => serde_json::from_str(&text)
            .map_err(|error| CommandError::of(format!("--json: {error}")))?,
        None => Json::Null,
    };
    let all = members_of(grammar, operation);
    fill(&mut body, operation, matches, &all)?;
    for member in &all {
        if let Some(value) = at_mut(&mut body, &member.path) {
            names.refer(operation, member, value)?;
        }
    }
    let is_required = grammar
        .described(operation)
        .pointer("/requestBody/required")
        .and_then(Json::as_bool)
        .unwrap_or_default();
    if body.is_null() {
        return Ok(is_required.then(|| (JSON.into(), "{}".into())));
    }
    Ok(Some((JSON.into(), body.to_string())))
}

/// Fills a body with the values of flags, and for a new record with defaults where a value is
/// missing.
fn fill(
    body: &mut Json,
    operation: &Operation,
    matches: &ArgMatches,
    all: &[Member],
) -> Result<(), CommandError> {
    if is_named(operation, all)
        && let Some(name) = matches.get_one::<String>("name")
    {
        put(body, &["name".to_owned()], name.as_str().into());
    }
    for member in all {
        if let Some(value) = members::flag_value(
            matches,
            &format!("body.{}", member.path.join(".")),
            &member.schema,
        ) {
            put(body, &member.path, value);
        }
    }
    if let Some(text) = matches.try_get_one::<String>("enroll").ok().flatten() {
        let (method, value) = text
            .split_once('=')
            .map_or((text.as_str(), None), |(method, value)| {
                (method, Some(value))
            });
        if !enrollment_methods(all).contains(&method) {
            let reason = format!(
                "--enroll: {method:?} is not one of {}",
                enrollment_methods(all).join(", ")
            );
            return Err(CommandError::Flag(reason));
        }
        put(
            body,
            &["enrollment".to_owned(), method.to_owned()],
            value.map_or(Json::Bool(true), Json::from),
        );
    }
    if operation.verb == "create" && (body.is_object() || body.is_null()) {
        for member in all {
            if at(body, &member.path).is_none()
                && let Some(value) = default_value(member)
            {
                put(body, &member.path, value);
            }
        }
    }
    Ok(())
}

fn at_mut<'j>(body: &'j mut Json, path: &[String]) -> Option<&'j mut Json> {
    path.iter().try_fold(body, |body, name| body.get_mut(name))
}

fn file(matches: &ArgMatches, flag: &str) -> Result<Option<String>, CommandError> {
    let Some(path) = matches.try_get_one::<String>(flag).ok().flatten() else {
        return Ok(None);
    };
    let mut text = String::new();
    let read = if path == "-" {
        std::io::stdin()
            .lock()
            .take(MAX_LENGTH)
            .read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_LENGTH).read_to_string(&mut text))
    };
    read.map_err(|error| CommandError::of(format!("--{flag}: {path}: {error}")))?;
    Ok(Some(text))
}
