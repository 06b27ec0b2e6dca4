//! Reads the records of another controller with the OpenZiti interface. Nothing is changed there.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value as Json};

use crate::{
    cli::{
        api::{self, grammar::Grammar, request::ApiRequest, transport::Transport},
        failure::CommandError,
    },
    entity::identity::DEFAULT_AUTH_POLICY,
};

const BASE: &str = "/edge/management/v1";

/// A kind of network files: its path, its members, and the records of the other controller.
pub(crate) struct SourceKind {
    pub path: String,
    pub members: Vec<String>,
    pub records: Vec<Json>,
}

/// The records that an import with ids needs besides those of network files.
#[derive(Default)]
pub(super) struct ImportedCredentials {
    pub authenticators: Vec<Json>,
    pub enrollments: Vec<Json>,
    /// For an identity, the services and configs of its overrides.
    pub overrides: HashMap<String, Vec<(String, String)>>,
    pub terminators: Vec<Json>,
}

/// The records of every kind, and the paths of the kinds that the other controller does not have.
///
/// # Errors
/// One line: the other controller does not answer, or rejects a request.
pub(crate) fn records(source: &Transport, grammar: &Grammar) -> Result<(Vec<SourceKind>, Vec<String>), CommandError> {
    let (mut kinds, mut missing, mut seen) = (kinds(grammar)?, Vec::new(), BTreeSet::new());
    for kind in &mut kinds {
        let Some(mut records) = list(source, &kind.path)? else {
            missing.push(kind.path.clone());
            continue;
        };
        // The list of transit routers also holds edge routers. The identity of a router has the id of the router.
        if kind.path.ends_with("-routers") {
            records.retain(|record| seen.insert(record.get("id").map(Json::to_string)));
        }
        kind.records = records;
    }
    Ok((kinds, missing))
}

/// The credentials, and what is listed by identity.
///
/// # Errors
/// As in [`records`].
pub(super) fn credentials(source: &Transport, kinds: &[SourceKind]) -> Result<ImportedCredentials, CommandError> {
    let all = |path: &str| Ok::<_, CommandError>(list(source, path)?.unwrap_or_default());
    let mut overrides = HashMap::new();
    for identity in records_of(kinds, "identities") {
        let id = text(identity, "id");
        let configs = list(source, &format!("identities/{}/service-configs", encoded(id)))?.unwrap_or_default();
        let pair = |one: &Json| {
            let of = |member: &str, flat: &str| one.pointer(member).and_then(Json::as_str).unwrap_or(text(one, flat)).to_owned();
            (of("/service/id", "serviceId"), of("/config/id", "configId"))
        };
        if !configs.is_empty() {
            overrides.insert(id.to_owned(), configs.iter().map(pair).collect());
        }
    }
    Ok(ImportedCredentials {
        authenticators: all("authenticators")?,
        enrollments: all("enrollments")?,
        terminators: all("terminators")?,
        overrides,
    })
}

/// The records of a list; `None` if there is no such list.
fn list(source: &Transport, path: &str) -> Result<Option<Vec<Json>>, CommandError> {
    let request = ApiRequest { method: "GET".into(), path: format!("{BASE}/{path}"), ..ApiRequest::default() };
    let probe = ApiRequest { query: vec![("limit".into(), "1".into())], ..request.clone() };
    let answer = source.ask(probe, None)?;
    if answer.status == 404 {
        return Ok(None);
    }
    let total = answer.json().and_then(|whole| whole.pointer("/meta/pagination/totalCount")?.as_u64());
    if total == Some(0) {
        return Ok(Some(Vec::new()));
    }
    let total = total.unwrap_or_default();
    let Json::Array(records) = api::everything(source, &request)? else { return Ok(None) };
    if (records.len() as u64) < total {
        return Err(CommandError::of(format!("{path}: the other controller listed {} of {total} records", records.len())));
    }
    Ok(Some(records))
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// The kinds of network files, from the schema of `PUT /network`.
fn kinds(grammar: &Grammar) -> Result<Vec<SourceKind>, CommandError> {
    let operation = grammar.operations.iter().find(|one| one.method == "PUT" && one.path == "/network");
    let schema = operation.and_then(|operation| grammar.body(operation)?.0).and_then(|schema| schema.get("properties")?.as_object());
    let schema = schema.ok_or_else(|| CommandError::of("the schema of network files is missing"))?;
    let kind = |(path, list): (&String, &Json)| {
        let item = list.get("items").filter(|item| item.get("properties").is_some())?;
        let forms = item.get("oneOf").and_then(Json::as_array).into_iter().flatten().chain([item]);
        let members: BTreeSet<&String> = forms.filter_map(|form| form.get("properties")?.as_object()).flat_map(Map::keys).collect();
        Some(SourceKind { path: path.clone(), members: members.into_iter().cloned().collect(), records: Vec::new() })
    };
    Ok(schema.iter().filter_map(kind).collect())
}

/// The records of a kind, by its path.
pub(crate) fn records_of<'k>(kinds: &'k [SourceKind], path: &str) -> impl Iterator<Item = &'k Json> {
    kinds.iter().filter(move |kind| kind.path == path).flat_map(|kind| &kind.records)
}

/// A member that is a text; empty if it is missing.
pub(crate) fn text<'r>(record: &'r Json, member: &str) -> &'r str {
    record.get(member).and_then(Json::as_str).unwrap_or_default()
}

/// Whether a member is `true`.
pub(crate) fn is(record: &Json, member: &str) -> bool {
    record.get(member).and_then(Json::as_bool).unwrap_or_default()
}

/// Whether a record is the identity of a router's tunneler.
pub(super) fn is_of_router(record: &Json) -> bool {
    record.get("typeId").is_some_and(|kind| kind == "Router")
}

/// Whether a controller makes the record by itself: the first administrator, identities and policies of routers, the default auth policy.
pub(crate) fn is_given(record: &Json) -> bool {
    is(record, "isDefaultAdmin") || is(record, "isSystem") || is_of_router(record) || text(record, "id") == DEFAULT_AUTH_POLICY
}
