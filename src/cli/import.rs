//! `overkeep import`: the network of another controller of the OpenZiti interface as a network file, which `overkeep plan` and `overkeep apply`
//! take. It only reads.
//!
//! No code here knows the members of a kind: they are those of the schema of network files. Ids are replaced by names wherever they stand.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use clap::Args;
use serde_json::{Map, Value as Json};

use super::{
    CommandResult,
    api::{self, grammar::Grammar, output, request::Request, transport::Transport},
    failure::Failure,
    login,
    trust::Trust,
};
use crate::{admin_socket::Outcome, clock::Clock, entity::builtin};

const BASE: &str = "/edge/management/v1";
/// Members with free data, in which no ids are looked for.
const FREE: [&str; 5] = ["tags", "data", "schema", "appData", "name"];
/// The id of the default auth policy, which is a word of other members, too.
const DEFAULT: &str = "default";
/// Members of posture checks that some controllers send as `null` instead of an empty list.
const LISTS: [&str; 3] = ["hashes", "signerFingerprints", "versions"];
/// The maximum number of names in a line of the report.
const MAX_NAMES: usize = 50;

/// Print the network of another controller as a file for `overkeep plan` and `overkeep apply`. Nothing is changed there.
#[derive(Args, Clone, Debug)]
pub(crate) struct Import {
    /// Address of the other controller: https://host:port
    #[arg(long, value_name = "URL")]
    from: String,
    /// The user name of an administrator there
    #[arg(long, value_name = "NAME", default_value = "admin")]
    user: String,
    /// Read the password from this file [default: ask for it]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// A one-time code, if a second factor is required
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    #[command(flatten)]
    trust: Trust,
}

/// A kind of network files: its path, its members, and the records of the other controller.
struct Kind {
    path: String,
    members: Vec<String>,
    records: Vec<Json>,
}

impl Import {
    /// Prints the file. Comments at its beginning say what it lacks.
    ///
    /// # Errors
    /// One line: the other controller does not answer, or rejects the log-in.
    pub(crate) fn act(self) -> CommandResult {
        let (url, _) = login::address(&self.from, "--from")?;
        let (ca, _) = self.trust.authority(&url)?;
        let context = login::with_password(url, &self.user, self.password_file.as_deref(), ca, self.code.as_deref())?;
        let source = Transport::remote(context.clone())?;
        let grammar = api::grammar()?;
        let mut kinds = kinds(&grammar)?;
        let (mut missing, mut seen) = (Vec::new(), BTreeSet::new());
        for kind in &mut kinds {
            let request = Request { method: "GET".into(), path: format!("{BASE}/{}", kind.path), ..Request::default() };
            if source.ask(request.clone(), None)?.status == 404 {
                missing.push(kind.path.clone());
                continue;
            }
            let Json::Array(mut records) = api::everything(&source, &request)? else { continue };
            // The list of transit routers has edge routers, too.
            records.retain(|record| seen.insert(record.get("id").map(Json::to_string)));
            kind.records = records;
        }
        // What was read stays read if the session has ended.
        drop(login::end(&context));
        let mut lines = report(&kinds, &missing);
        lines.push(output::text(&Json::Object(network(&kinds)?), "yaml", &[])?);
        Ok(Outcome::Done(lines))
    }
}

/// The kinds of network files, from the schema of `PUT /network`.
fn kinds(grammar: &Grammar) -> Result<Vec<Kind>, Failure> {
    let operation = grammar.operations.iter().find(|one| one.method == "PUT" && one.path == "/network");
    let schema = operation.and_then(|operation| grammar.body(operation)?.0).and_then(|schema| schema.get("properties")?.as_object());
    let schema = schema.ok_or_else(|| Failure::of("the schema of network files is missing"))?;
    let kind = |(path, list): (&String, &Json)| {
        let item = list.get("items").filter(|item| item.get("properties").is_some())?;
        let forms = item.get("oneOf").and_then(Json::as_array).into_iter().flatten().chain([item]);
        let members: BTreeSet<&String> = forms.filter_map(|form| form.get("properties")?.as_object()).flat_map(Map::keys).collect();
        Some(Kind { path: path.clone(), members: members.into_iter().cloned().collect(), records: Vec::new() })
    };
    Ok(schema.iter().filter_map(kind).collect())
}

/// The document: the records that an administrator made, with names instead of ids.
fn network(kinds: &[Kind]) -> Result<Map<String, Json>, Failure> {
    let text = |record: &Json, member: &str| record.get(member).and_then(Json::as_str).unwrap_or_default().to_owned();
    let all: BTreeMap<String, String> =
        kinds.iter().flat_map(|kind| &kind.records).map(|record| (text(record, "id"), text(record, "name"))).collect();
    let known: Vec<String> =
        builtin::config_types(Clock::system().now()).map_err(Failure::of)?.into_iter().map(|one| one.spec.name).collect();
    let names = all.iter().filter(|(id, _)| *id != DEFAULT).map(|(id, name)| (id.clone(), name.clone())).collect();
    let mut network = Map::new();
    for kind in kinds {
        let is_shipped = |record: &Json| kind.path == "config-types" && known.contains(&text(record, "name"));
        let wanted = kind.records.iter().filter(|record| !is_given(record) && !is_shipped(record));
        let draft = |record: &Json| {
            let members = kind.members.iter().filter_map(|member| {
                let value = record.get(member).filter(|value| !value.is_null() && *value != "")?;
                let value = match member.as_str() {
                    free if FREE.contains(&free) => value.clone(),
                    id if id.ends_with("Id") => named(value, &all),
                    _ => named(value, &names),
                };
                Some((member.clone(), value))
            });
            Json::Object(members.collect())
        };
        network.insert(kind.path.clone(), wanted.map(draft).collect());
    }
    Ok(network)
}

/// Whether a controller makes the record by itself: the first administrator, identities and policies of routers, the default auth policy.
fn is_given(record: &Json) -> bool {
    let is = |member: &str| record.get(member).and_then(Json::as_bool).unwrap_or_default();
    is("isDefaultAdmin")
        || is("isSystem")
        || record.get("typeId").is_some_and(|kind| kind == "Router")
        || record.get("id").is_some_and(|id| id == DEFAULT)
}

/// A value with names instead of ids: texts, roles `@id`, keys of maps. A reference to a record is its name.
fn named(value: &Json, names: &BTreeMap<String, String>) -> Json {
    let name = |text: &str| names.get(text).cloned().unwrap_or_else(|| text.to_owned());
    match value {
        Json::String(text) => match text.strip_prefix('@') {
            Some(id) => format!("@{}", name(id)).into(),
            None => name(text).into(),
        },
        Json::Array(list) => list.iter().map(|one| named(one, names)).collect(),
        Json::Object(members) if members.contains_key("entity") && members.contains_key("name") => {
            members.get("name").cloned().unwrap_or_default()
        }
        Json::Object(members) => {
            let value = |key: &str, value: &Json| match value {
                Json::Null if LISTS.contains(&key) => Json::Array(Vec::new()),
                other => named(other, names),
            };
            members.iter().map(|(key, json)| (name(key), value(key, json))).collect()
        }
        other => other.clone(),
    }
}

/// What the file lacks, as comments.
fn report(kinds: &[Kind], missing: &[String]) -> Vec<String> {
    let mut lines = vec!["# Not in this file: ids, passwords, certificates, enrollments, sessions and terminators.".to_owned()];
    let mut told = |what: &str, names: Vec<&str>| {
        if !names.is_empty() {
            let more = if names.len() > MAX_NAMES { format!(" and {} more", names.len() - MAX_NAMES) } else { String::new() };
            let first = names.iter().take(MAX_NAMES).map(|name| output::plain(name)).collect::<Vec<_>>().join(", ");
            lines.push(format!("# {what}: {first}{more}"));
        }
    };
    for (path, what) in [
        ("identities", "Identities to enroll again (overkeep create enrollment)"),
        ("edge-routers", "Edge routers to enroll again (enrollmentJwt of overkeep show edge-router)"),
        ("transit-routers", "Transit routers to enroll again"),
        ("cas", "CAs to verify again (overkeep verify ca)"),
    ] {
        let records = kinds.iter().filter(|kind| kind.path == path).flat_map(|kind| &kind.records).filter(|record| !is_given(record));
        told(what, records.filter_map(|record| record.get("name")?.as_str()).collect());
    }
    told("Kinds that the other controller does not list", missing.iter().map(String::as_str).collect());
    lines
}
