//! The records of another controller as a network file, with names instead of ids.

use std::collections::{BTreeSet, HashMap};

use model::{
    clock::Clock,
    entity::{EdgeRouter, Entity, Kind, builtin},
    hidden_text::shown,
};
use rest::with_references;
use serde_json::{Map, Value as Json};

use super::source::{SourceKind, is_given, is_of_router, records_of, text};
use crate::cli::failure::CommandError;

/// Members with free data, in which nothing is replaced.
const FREE: [&str; 5] = ["tags", "data", "schema", "appData", "name"];
/// Members of posture checks that some controllers send as `null` instead of an empty list.
const LISTS: [&str; 3] = ["hashes", "signerFingerprints", "versions"];
/// The maximum number of names in a line of the report.
const MAX_NAMES: usize = 50;

/// The document: the records that an administrator made, with names instead of ids.
pub(crate) fn network(kinds: &[SourceKind]) -> Result<Map<String, Json>, CommandError> {
    // Records of several kinds can share one id: a router, the identity of its tunneler, and the
    // policy of the two.
    let named = |kind: &SourceKind, record: &Json| {
        (
            (kind.of.kind, text(record, "id").to_owned()),
            text(record, "name").to_owned(),
        )
    };
    let names: HashMap<(Kind, String), String> = kinds
        .iter()
        .flat_map(|kind| kind.records.iter().map(move |record| named(kind, record)))
        .collect();
    let name = |_, kind, id: &str| {
        Ok(names
            .get(&(kind, id.to_owned()))
            .map_or(id, String::as_str)
            .to_owned())
    };
    let known = shipped_types()?;
    let routers: BTreeSet<&str> = records_of(kinds, EdgeRouter::KIND.path)
        .map(|record| text(record, "id"))
        .collect();
    let mut network = Map::new();
    for kind in kinds {
        let is_shipped = |record: &Json| {
            kind.path == "config-types" && known.iter().any(|name| name == text(record, "name"))
        };
        // A router makes the identity of its tunneler, and the file gives the identity what an
        // administrator set in it.
        let is_wanted = |record: &Json| {
            !is_given(record) || (is_of_router(record) && routers.contains(text(record, "id")))
        };
        let wanted = kind
            .records
            .iter()
            .filter(|record| is_wanted(record) && !is_shipped(record));
        let drafts = wanted.map(|record| {
            with_references(&kind.of, draft_with_ids(kind, record), &name).map_err(CommandError::of)
        });
        network.insert(kind.path.to_owned(), drafts.collect::<Result<_, _>>()?);
    }
    Ok(network)
}

/// The names of the config types that a release brings.
pub(super) fn shipped_types() -> Result<Vec<String>, CommandError> {
    let types = builtin::config_types(Clock::system().now()).map_err(CommandError::of)?;
    Ok(types.into_iter().map(|one| one.spec.name).collect())
}

/// The members of a record that a request writes; ids stay.
pub(super) fn draft_with_ids(kind: &SourceKind, record: &Json) -> Json {
    let members = kind.members.iter().filter_map(|member| {
        let value = record
            .get(member)
            .filter(|value| !value.is_null() && **value != "")?;
        Some((
            member.clone(),
            if FREE.contains(&member.as_str()) {
                value.clone()
            } else {
                written(value)
            },
        ))
    });
    Json::Object(members.collect())
}

/// A value as requests write it: a reference to a record becomes the id of the record.
fn written(value: &Json) -> Json {
    match value {
        Json::Array(list) => list.iter().map(written).collect(),
        Json::Object(members) if members.contains_key("entity") && members.contains_key("name") => {
            members.get("id").cloned().unwrap_or_default()
        }
        Json::Object(members) => {
            let value = |key: &str, value: &Json| match value {
                Json::Null if LISTS.contains(&key) => Json::Array(Vec::new()),
                other => written(other),
            };
            members
                .iter()
                .map(|(key, json)| (key.clone(), value(key, json)))
                .collect()
        }
        other => other.clone(),
    }
}

/// What the file lacks, as comments.
pub(super) fn report(kinds: &[SourceKind], missing: &[String], dropped: &[String]) -> Vec<String> {
    let mut lines = vec![
        "# Not in this file: ids, passwords, certificates, enrollments, sessions and terminators."
            .to_owned(),
    ];
    let mut told =
        |what: &str, names: Vec<&str>| lines.extend(names_line(&format!("# {what}"), &names));
    for (path, what) in [
        (
            "identities",
            "Identities to enroll again (overkeep create enrollment)",
        ),
        (
            "edge-routers",
            "Edge routers to enroll again (enrollmentJwt of overkeep show edge-router)",
        ),
        ("transit-routers", "Transit routers to enroll again"),
        ("cas", "CAs to verify again (overkeep verify ca)"),
    ] {
        let records = records_of(kinds, path).filter(|record| !is_given(record));
        told(
            what,
            records
                .filter_map(|record| record.get("name")?.as_str())
                .collect(),
        );
    }
    told(
        "Kinds that the other controller does not list",
        missing.iter().map(String::as_str).collect(),
    );
    lines.extend(dropped.iter().map(|line| format!("# {line}")));
    lines
}

/// A line with names, shortened; `None` without a name.
pub(crate) fn names_line(what: &str, names: &[impl AsRef<str>]) -> Option<String> {
    let more = if names.len() > MAX_NAMES {
        format!(" and {} more", names.len() - MAX_NAMES)
    } else {
        String::new()
    };
    let first = names
        .iter()
        .take(MAX_NAMES)
        .map(|name| shown(name.as_ref()))
        .collect::<Vec<_>>()
        .join(", ");
    (!names.is_empty()).then(|| format!("{what}: {first}{more}"))
}
