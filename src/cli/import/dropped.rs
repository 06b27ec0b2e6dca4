//! Members of the other controller's records that this controller does not know, so that they are
//! lost.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::{
    network_file::{draft_with_ids, names_line},
    source::{AUTHENTICATORS, ENROLLMENTS, ImportedCredentials, SourceKind},
};
use crate::cli::api::grammar::{Grammar, INTERFACES};

/// The maximum length of a member's path in a line, in characters.
const MAX_PATH: usize = 100;

/// A line for each kind with members that are lost: their paths, and the number of records in which
/// each has a value. Members that answers of this controller have are derived from others, or told
/// of in other lines.
pub(super) fn lines(
    grammar: &Grammar,
    kinds: &[SourceKind],
    credentials: Option<&ImportedCredentials>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for kind in kinds {
        let known: BTreeSet<&str> = shown(grammar, kind.path)
            .into_iter()
            .chain(kind.members.iter().map(String::as_str))
            .collect();
        let lost = kind.records.iter().map(|record| {
            let mut lost = unknown(record, &known);
            below(
                &draft_with_ids(kind, record),
                &[kind.of.schema.as_ref()],
                "",
                &mut lost,
            );
            lost
        });
        lines.extend(line(kind.path, lost));
    }
    let credentials = credentials.into_iter().flat_map(|of| {
        [
            (AUTHENTICATORS, &of.authenticators),
            (ENROLLMENTS, &of.enrollments),
        ]
    });
    for (path, records) in credentials {
        let known = shown(grammar, path);
        lines.extend(line(
            path,
            records.iter().map(|record| unknown(record, &known)),
        ));
    }
    lines
}

fn line(path: &str, records: impl Iterator<Item = BTreeSet<String>>) -> Option<String> {
    let mut counts = BTreeMap::<String, usize>::new();
    for member in records.flatten() {
        *counts.entry(member).or_default() += 1;
    }
    let members: Vec<String> = counts
        .into_iter()
        .map(|(member, count)| format!("{member} ({count})"))
        .collect();
    names_line(
        &format!("members of {path} that are lost, with the number of records that have them"),
        &members,
    )
}

/// The members of a kind in answers of this controller.
fn shown<'g>(grammar: &'g Grammar, path: &str) -> BTreeSet<&'g str> {
    let [management, ..] = INTERFACES;
    let list = grammar
        .lists(management, &format!("/{path}"))
        .and_then(|operation| grammar.answered(operation));
    let mut found = BTreeSet::new();
    let mut schemas: Vec<&Json> = list
        .and_then(|list| list.get("items"))
        .into_iter()
        .collect();
    while let Some(schema) = schemas.pop() {
        let schema = grammar.resolved(management, schema);
        found.extend(
            schema
                .get("properties")
                .and_then(Json::as_object)
                .into_iter()
                .flat_map(|members| members.keys().map(String::as_str)),
        );
        schemas.extend(forms(schema));
    }
    found
}

/// The schemas of which a value fits all, any or one.
fn forms(schema: &Json) -> impl Iterator<Item = &Json> {
    ["allOf", "anyOf", "oneOf"]
        .into_iter()
        .filter_map(|word| schema.get(word)?.as_array())
        .flatten()
}

/// The members of a record that have a value and are not known.
fn unknown(record: &Json, known: &BTreeSet<&str>) -> BTreeSet<String> {
    let members = record.as_object().into_iter().flatten();
    members
        .filter(|(name, value)| !known.contains(name.as_str()) && has_value(value))
        .map(|(name, _)| shortened(name))
        .collect()
}

/// Notes the paths of members below the members of a request that its schemas do not describe. A
/// schema without members allows all.
fn below(value: &Json, schemas: &[&Json], path: &str, lost: &mut BTreeSet<String>) {
    let mut all = schemas.to_vec();
    let mut at = 0;
    while let Some(schema) = all.get(at) {
        let more: Vec<&Json> = forms(schema).collect();
        all.extend(more);
        at += 1;
    }
    match value {
        Json::Array(items) => {
            let of: Vec<&Json> = all
                .iter()
                .filter_map(|schema| schema.get("items"))
                .collect();
            for item in items {
                below(item, &of, path, lost);
            }
        }
        Json::Object(members) => {
            let described: Vec<&Json> = all
                .iter()
                .filter_map(|schema| schema.get("properties"))
                .collect();
            for (name, value) in members.iter().filter(|_| !described.is_empty()) {
                let place = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                let of: Vec<&Json> = described
                    .iter()
                    .filter_map(|members| members.get(name))
                    .collect();
                if !of.is_empty() {
                    below(value, &of, &place, lost);
                } else if has_value(value) {
                    lost.insert(shortened(&place));
                }
            }
        }
        _ => {}
    }
}

fn shortened(path: &str) -> String {
    path.chars().take(MAX_PATH).collect()
}

fn has_value(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(members) => !members.is_empty(),
        Json::Bool(_) | Json::Number(_) => true,
    }
}
