//! Reads the records of another controller with the OpenZiti interface. Nothing is changed there.

use std::collections::{BTreeSet, HashMap};

use model::entity::identity::DEFAULT_AUTH_POLICY;
use rest::{DeclaredKind, DeclaredKinds};
use serde_json::{Map, Value as Json};

use crate::cli::{
    api::{
        self,
        request::{ApiAnswer, ApiRequest, MANAGEMENT},
        transport::Transport,
    },
    failure::CommandError,
};

pub(super) const AUTHENTICATORS: &str = "authenticators";
pub(super) const ENROLLMENTS: &str = "enrollments";
/// The most enrollments that are asked for one by one.
const MAX_SINGLE: u64 = 100_000;
/// After so many that the other controller cannot show, before one that it can, none is asked for
/// any more.
const MAX_REFUSED: u64 = 100;

/// A kind of network files, its members, and the records of the other controller.
pub(crate) struct SourceKind {
    pub of: DeclaredKind,
    pub path: &'static str,
    pub members: BTreeSet<String>,
    pub records: Vec<Json>,
}

/// The records that an import with ids needs besides those of network files.
#[derive(Default)]
pub(super) struct ImportedCredentials {
    pub authenticators: Vec<Json>,
    pub enrollments: Vec<Json>,
    /// A line about enrollments that the other controller could not show.
    pub unread: Option<String>,
    /// For an identity, the services and configs of its overrides.
    pub overrides: HashMap<String, Vec<(String, String)>>,
    pub terminators: Vec<Json>,
}

/// The records of every kind, and the paths of the kinds that the other controller does not have.
///
/// # Errors
/// One line: the other controller does not answer, or rejects a request.
pub(crate) fn records(
    source: &Transport,
    declared: &DeclaredKinds,
) -> Result<(Vec<SourceKind>, Vec<String>), CommandError> {
    let mut kinds: Vec<SourceKind> = declared.all().iter().map(SourceKind::of).collect();
    let (mut missing, mut seen) = (Vec::new(), BTreeSet::new());
    for kind in &mut kinds {
        let Some(mut records) = list(source, kind.path)? else {
            missing.push(kind.path.to_owned());
            continue;
        };
        // The list of transit routers also holds edge routers. The identity of a router has the id
        // of the router.
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
pub(super) fn credentials(
    source: &Transport,
    kinds: &[SourceKind],
) -> Result<ImportedCredentials, CommandError> {
    let all = |path: &str| Ok::<_, CommandError>(list(source, path)?.unwrap_or_default());
    let mut overrides = HashMap::new();
    for identity in records_of(kinds, "identities") {
        let id = text(identity, "id");
        let configs = list(
            source,
            &format!("identities/{}/service-configs", encoded(id)),
        )?
        .unwrap_or_default();
        let pair = |one: &Json| {
            let of = |member: &str, flat: &str| {
                one.pointer(member)
                    .and_then(Json::as_str)
                    .unwrap_or(text(one, flat))
                    .to_owned()
            };
            (of("/service/id", "serviceId"), of("/config/id", "configId"))
        };
        if !configs.is_empty() {
            overrides.insert(id.to_owned(), configs.iter().map(pair).collect());
        }
    }
    let (enrollments, unread) = enrollments(source)?;
    Ok(ImportedCredentials {
        authenticators: all(AUTHENTICATORS)?,
        enrollments,
        unread,
        terminators: all("terminators")?,
        overrides,
    })
}

/// The records of a list; `None` if there is no such list.
fn list(source: &Transport, path: &str) -> Result<Option<Vec<Json>>, CommandError> {
    let answer = single(source, path, 0)?;
    if answer.status == 404 {
        return Ok(None);
    }
    let total = total(&answer);
    if total == Some(0) {
        return Ok(Some(Vec::new()));
    }
    let total = total.unwrap_or_default();
    let Json::Array(records) = api::everything(source, &listing(path))? else {
        return Ok(None);
    };
    if (records.len() as u64) < total {
        return Err(CommandError::of(format!(
            "{path}: the other controller listed {} of {total} records",
            records.len()
        )));
    }
    Ok(Some(records))
}

fn listing(path: &str) -> ApiRequest {
    ApiRequest {
        method: "GET".into(),
        path: format!("{MANAGEMENT}/{path}"),
        ..ApiRequest::default()
    }
}

/// The answer with the one record of a list that is at an offset.
fn single(source: &Transport, path: &str, offset: u64) -> Result<ApiAnswer, CommandError> {
    let query = vec![
        ("limit".into(), "1".into()),
        ("offset".into(), offset.to_string()),
    ];
    source.ask(
        ApiRequest {
            query,
            ..listing(path)
        },
        None,
    )
}

fn total(answer: &ApiAnswer) -> Option<u64> {
    answer
        .json()?
        .pointer("/meta/pagination/totalCount")?
        .as_u64()
}

/// The enrollments, and a line about those that the other controller cannot show. A page with the
/// enrollment of a router that was deleted fails there for ever; then each enrollment is asked for
/// alone.
fn enrollments(source: &Transport) -> Result<(Vec<Json>, Option<String>), CommandError> {
    if let Ok(Some(records)) = list(source, ENROLLMENTS) {
        return Ok((records, None));
    }
    let (mut records, mut count, mut offset, mut reason) = (Vec::new(), None, 0, String::new());
    while offset < count.unwrap_or(MAX_REFUSED).min(MAX_SINGLE) {
        let answer = single(source, ENROLLMENTS, offset)?;
        offset += 1;
        if answer.status == 404 || answer.status >= 500 {
            reason = answer
                .good()
                .err()
                .map(|error| error.message())
                .unwrap_or_default();
            continue;
        }
        let answer = answer.good()?;
        count = total(&answer).or(count);
        match answer.data() {
            Json::Array(page) if !page.is_empty() => records.extend(page.into_iter().take(1)),
            _ => break,
        }
    }
    let line = match count.map(|count| count.saturating_sub(records.len() as u64)) {
        Some(0) => return Ok((records, None)),
        Some(unread) => format!(
            "enrollments that the other controller cannot show, and that are not imported: {unread} ({reason})"
        ),
        None => {
            format!("the other controller cannot list enrollments, and none is imported ({reason})")
        }
    };
    Ok((records, Some(line)))
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

impl SourceKind {
    fn of(of: &DeclaredKind) -> Self {
        let forms = of
            .schema
            .get("oneOf")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
            .chain([of.schema.as_ref()]);
        let members = forms
            .filter_map(|form| form.get("properties")?.as_object())
            .flat_map(Map::keys)
            .cloned()
            .collect();
        Self {
            path: of.kind.path,
            members,
            records: Vec::new(),
            of: of.clone(),
        }
    }
}

/// The records of a kind, by its path.
pub(crate) fn records_of<'k>(
    kinds: &'k [SourceKind],
    path: &str,
) -> impl Iterator<Item = &'k Json> {
    kinds
        .iter()
        .filter(move |kind| kind.path == path)
        .flat_map(|kind| &kind.records)
}

/// A member that is a text; empty if it is missing.
pub(crate) fn text<'r>(record: &'r Json, member: &str) -> &'r str {
    record
        .get(member)
        .and_then(Json::as_str)
        .unwrap_or_default()
}

/// Whether a member is `true`.
pub(crate) fn is(record: &Json, member: &str) -> bool {
    record
        .get(member)
        .and_then(Json::as_bool)
        .unwrap_or_default()
}

/// Whether a record is the identity of a router's tunneler.
pub(super) fn is_of_router(record: &Json) -> bool {
    record.get("typeId").is_some_and(|kind| kind == "Router")
}

/// Whether a controller makes the record by itself: the first administrator, identities and
/// policies of routers, the default auth policy.
pub(crate) fn is_given(record: &Json) -> bool {
    is(record, "isDefaultAdmin")
        || is(record, "isSystem")
        || is_of_router(record)
        || text(record, "id") == DEFAULT_AUTH_POLICY
}
