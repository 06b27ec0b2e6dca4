//! The records of another controller as a network file, with names instead of ids.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::source::{SourceKind, is_given, records_of, text};
use crate::{
    cli::{api::output, failure::CommandError},
    clock::Clock,
    entity::{builtin, identity::DEFAULT_AUTH_POLICY},
};

/// Members with free data, in which ids are not replaced.
const FREE: [&str; 5] = ["tags", "data", "schema", "appData", "name"];
/// Members of posture checks that some controllers send as `null` instead of an empty list.
const LISTS: [&str; 3] = ["hashes", "signerFingerprints", "versions"];
/// The maximum number of names in a line of the report.
const MAX_NAMES: usize = 50;

/// The document: the records that an administrator made, with names instead of ids.
pub(crate) fn network(kinds: &[SourceKind]) -> Result<Map<String, Json>, CommandError> {
    let all: BTreeMap<String, String> =
        kinds.iter().flat_map(|kind| &kind.records).map(|record| (text(record, "id").into(), text(record, "name").into())).collect();
    let known = shipped_types()?;
    // Other members may have this id as a text that is no id.
    let names = all.iter().filter(|(id, _)| *id != DEFAULT_AUTH_POLICY).map(|(id, name)| (id.clone(), name.clone())).collect();
    let mut network = Map::new();
    for kind in kinds {
        let is_shipped = |record: &Json| kind.path == "config-types" && known.iter().any(|name| name == text(record, "name"));
        let wanted = kind.records.iter().filter(|record| !is_given(record) && !is_shipped(record));
        let renamed = |member: &str, value: &Json| match member {
            id if id.ends_with("Id") => converted(value, Some(&all)),
            _ => converted(value, Some(&names)),
        };
        network.insert(kind.path.clone(), wanted.map(|record| draft(kind, record, &renamed)).collect());
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
    draft(kind, record, &|_, value| converted(value, None))
}

fn draft(kind: &SourceKind, record: &Json, convert: &dyn Fn(&str, &Json) -> Json) -> Json {
    let members = kind.members.iter().filter_map(|member| {
        let value = record.get(member).filter(|value| !value.is_null() && **value != "")?;
        let value = if FREE.contains(&member.as_str()) { value.clone() } else { convert(member, value) };
        Some((member.clone(), value))
    });
    Json::Object(members.collect())
}

/// A value as requests write it: a reference to a record becomes the id of the record. With `names`, ids are replaced by names: in texts,
/// in roles `@id`, and in keys of maps.
fn converted(value: &Json, names: Option<&BTreeMap<String, String>>) -> Json {
    let name = |text: &str| names.and_then(|names| names.get(text)).cloned().unwrap_or_else(|| text.to_owned());
    match value {
        Json::String(text) => match text.strip_prefix('@') {
            Some(id) => format!("@{}", name(id)).into(),
            None => name(text).into(),
        },
        Json::Array(list) => list.iter().map(|one| converted(one, names)).collect(),
        Json::Object(members) if members.contains_key("entity") && members.contains_key("name") => {
            members.get(if names.is_some() { "name" } else { "id" }).cloned().unwrap_or_default()
        }
        Json::Object(members) => {
            let value = |key: &str, value: &Json| match value {
                Json::Null if LISTS.contains(&key) => Json::Array(Vec::new()),
                other => converted(other, names),
            };
            members.iter().map(|(key, json)| (name(key), value(key, json))).collect()
        }
        other => other.clone(),
    }
}

/// What the file lacks, as comments.
pub(super) fn report(kinds: &[SourceKind], missing: &[String]) -> Vec<String> {
    let mut lines = vec!["# Not in this file: ids, passwords, certificates, enrollments, sessions and terminators.".to_owned()];
    let mut told = |what: &str, names: Vec<&str>| lines.extend(names_line(&format!("# {what}"), &names));
    for (path, what) in [
        ("identities", "Identities to enroll again (overkeep create enrollment)"),
        ("edge-routers", "Edge routers to enroll again (enrollmentJwt of overkeep show edge-router)"),
        ("transit-routers", "Transit routers to enroll again"),
        ("cas", "CAs to verify again (overkeep verify ca)"),
    ] {
        let records = records_of(kinds, path).filter(|record| !is_given(record));
        told(what, records.filter_map(|record| record.get("name")?.as_str()).collect());
    }
    told("Kinds that the other controller does not list", missing.iter().map(String::as_str).collect());
    lines
}

/// A line with names, shortened; `None` without a name.
pub(crate) fn names_line(what: &str, names: &[impl AsRef<str>]) -> Option<String> {
    let more = if names.len() > MAX_NAMES { format!(" and {} more", names.len() - MAX_NAMES) } else { String::new() };
    let first = names.iter().take(MAX_NAMES).map(|name| output::plain(name.as_ref())).collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| format!("{what}: {first}{more}"))
}
