//! Record names in place of ids: in paths, in members that refer to records, and as `@name` in
//! lists of roles.

use std::collections::BTreeMap;

use model::entity::{kebab, singular};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use query::literal;
use serde_json::Value as Json;

use super::{
    grammar::{Grammar, Operation},
    members::Member,
    request::{ApiAnswer, ApiRequest},
    transport::Transport,
};
use crate::cli::failure::CommandError;

/// Ids that were looked up, by path and name.
pub(crate) struct NameLookup<'a> {
    pub grammar: &'a Grammar,
    pub transport: &'a Transport,
    known: BTreeMap<(String, String), String>,
}

impl<'a> NameLookup<'a> {
    pub(crate) fn new(grammar: &'a Grammar, transport: &'a Transport) -> Self {
        Self {
            grammar,
            transport,
            known: BTreeMap::new(),
        }
    }

    /// The path of an operation with its parameters, which are ids or names.
    ///
    /// # Errors
    /// A name is unknown or ambiguous.
    pub(crate) fn path(
        &mut self,
        operation: &Operation,
        values: &[String],
    ) -> Result<String, CommandError> {
        let mut path = String::new();
        let mut lists = parameter_lists(self.grammar, operation).into_iter();
        let mut values = values.iter();
        for part in operation.path.split('/').filter(|part| !part.is_empty()) {
            if !part.starts_with('{') {
                path += &format!("/{part}");
                continue;
            }
            let value = values.next().cloned().unwrap_or_default();
            let id = match lists.next().flatten() {
                Some(list) => self.id(list, &list.path, &value)?,
                None => value,
            };
            path += &format!("/{}", encoded(&id));
        }
        Ok(format!(
            "{}{}",
            operation.base,
            if path.is_empty() { "/" } else { &path }
        ))
    }

    /// The id of the record with this id, or else with this name. The interface is that of
    /// `operation`.
    fn id(
        &mut self,
        operation: &Operation,
        kind: &str,
        text: &str,
    ) -> Result<String, CommandError> {
        let key = (kind.to_owned(), text.to_owned());
        if let Some(id) = self.known.get(&key) {
            return Ok(id.clone());
        }
        let get = |path: String, query| {
            self.transport.ask(
                ApiRequest {
                    method: "GET".into(),
                    path: operation.base.to_owned() + &path,
                    query,
                    ..ApiRequest::default()
                },
                None,
            )
        };
        let has_detail = self.grammar.operations.iter().any(|one| {
            one.interface == operation.interface
                && one.method == "GET"
                && one
                    .path
                    .strip_prefix(kind)
                    .is_some_and(|rest| rest.starts_with("/{") && rest.ends_with('}'))
        });
        let is_id = has_detail
            && !text.is_empty()
            && get(format!("{kind}/{}", encoded(text)), Vec::new())?.status == 200;
        let id = if is_id {
            text.to_owned()
        } else {
            only(kind, text, &get(kind.to_owned(), named(text))?)?
        };
        self.known.insert(key, id.clone());
        Ok(id)
    }

    /// Replaces names by ids in a member that refers to records.
    ///
    /// # Errors
    /// A name is unknown or ambiguous.
    pub(crate) fn refer(
        &mut self,
        operation: &Operation,
        member: &Member,
        value: &mut Json,
    ) -> Result<(), CommandError> {
        let Some((kind, is_of_roles)) = referred_kind(self.grammar, operation, member) else {
            return Ok(());
        };
        let mut refer = |text: &mut String| -> Result<(), CommandError> {
            match text.strip_prefix('@') {
                Some(name) if is_of_roles => {
                    *text = format!("@{}", self.id(operation, &kind, name)?)
                }
                None if !is_of_roles && !text.is_empty() => {
                    *text = self.id(operation, &kind, text)?
                }
                _ => (),
            }
            Ok(())
        };
        match value {
            Json::String(text) => refer(text),
            Json::Array(list) => list.iter_mut().try_for_each(|one| {
                if let Json::String(text) = one {
                    refer(text)
                } else {
                    Ok(())
                }
            }),
            _ => Ok(()),
        }
    }
}

/// The list with the records that each parameter of a path may name; `None` if it is not a record
/// with a name.
pub(crate) fn parameter_lists<'g>(
    grammar: &'g Grammar,
    operation: &Operation,
) -> Vec<Option<&'g Operation>> {
    let (mut before, mut lists) = (String::new(), Vec::new());
    for part in operation.path.split('/').filter(|part| !part.is_empty()) {
        let Some(parameter) = part
            .strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'))
        else {
            before += &format!("/{part}");
            continue;
        };
        // After the first parameter, the kind follows from the name of the parameter.
        let kind = if lists.is_empty() {
            Some(before.clone())
        } else {
            grammar.kind_of(
                operation.interface,
                parameter.strip_suffix("Id").unwrap_or(parameter),
            )
        };
        lists.push(kind.and_then(|kind| grammar.lists(operation.interface, &kind)));
    }
    lists
}

/// The kind that a member refers to, and whether by roles: from the row, or from the member's name.
pub(crate) fn referred_kind(
    grammar: &Grammar,
    operation: &Operation,
    member: &Member,
) -> Option<(String, bool)> {
    let path = member.path.join(".");
    let described = operation
        .references
        .iter()
        .find(|(field, _)| *field == path)
        .map(|(_, kind)| format!("/{kind}"));
    if let Some(kind) = described.filter(|kind| grammar.has(operation.interface, "GET", kind)) {
        return Some((kind, false));
    }
    let last = member.path.last()?;
    let of = |singular: &str| grammar.kind_of(operation.interface, singular);
    match (last.strip_suffix("Roles"), last.strip_suffix("Id")) {
        (Some(kind), _) => of(kind).map(|kind| (kind, true)),
        (None, Some(kind)) => of(kind).map(|kind| (kind, false)),
        (None, None) => {
            let word = kebab(last);
            let is_list = member
                .schema
                .get("type")
                .is_some_and(|kind| kind == "array");
            if is_list && singular(&word) != word {
                of(&singular(&word)).map(|kind| (kind, false))
            } else {
                None
            }
        }
    }
}

pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The query for records with a name.
fn named(text: &str) -> Vec<(String, String)> {
    vec![
        ("filter".into(), format!("name = {}", literal(text))),
        ("limit".into(), "20".into()),
    ]
}

/// The id of the only record in an answer.
fn only(kind: &str, text: &str, answer: &ApiAnswer) -> Result<String, CommandError> {
    let what = singular(kind.rsplit('/').next().unwrap_or(kind));
    // A kind without names rejects the filter.
    let data = if answer.status == 200 {
        answer.data()
    } else {
        Json::Null
    };
    let records = data.as_array().cloned().unwrap_or_default();
    // Some lists ignore filters.
    let is_it = |record: &&Json| record.get("name").and_then(Json::as_str) == Some(text);
    let ids: Vec<&str> = records
        .iter()
        .filter(is_it)
        .filter_map(|record| record.get("id").and_then(Json::as_str))
        .collect();
    match ids.as_slice() {
        [id] => Ok((*id).to_owned()),
        [] if answer.status == 401 => Err(answer
            .clone()
            .good()
            .err()
            .unwrap_or_else(|| CommandError::of("not logged in"))),
        [] => Err(CommandError::of(format!(
            "{what}: no record has the id or the name {text:?}"
        ))),
        several => Err(CommandError::of(format!(
            "{what}: {} have the name {text:?}: {}",
            several.len(),
            several.join(", ")
        ))),
    }
}
