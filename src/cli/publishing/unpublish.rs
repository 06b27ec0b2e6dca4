//! `overkeep unpublish`: deletes what `publish` made for a service, except what was changed or is
//! used by others since.

use std::{collections::BTreeSet, ffi::OsString};

use clap::Args;
use model::hidden_text::shown;
use query::literal;
use serde_json::{Map, Value as Json, json};

use super::{ATTEMPTS, NOTHING_CHANGED, TAG, changes, given_up};
use crate::{
    admin_socket::Outcome,
    cli::{
        admin::ControllerFlags,
        api::{self, encoded, output, request::ApiRequest, transport::Transport},
        failure::{CommandError, CommandResult},
        network_document::{entries, object_line, word},
    },
};

const BASE: &str = "/edge/management/v1";
const CONFIGS: &str = "configs";
const SERVICES: &str = "services";
const POLICIES: &str = "service-policies";
const ROUTER_POLICIES: &str = "service-edge-router-policies";

/// Delete what publish made for a service, in one transaction. What was changed since, or is used
/// by others, stays.
#[derive(Args, Clone, Debug)]
pub(crate) struct Unpublish {
    /// The name of the service
    name: String,
    /// Print what would be deleted, and who would lose access, and change nothing
    #[arg(long)]
    preview: bool,
    #[command(flatten)]
    which: ControllerFlags,
}

/// What happens to the records that were made for a service.
#[derive(PartialEq, Eq)]
struct Removal {
    /// The document that deletes those that go.
    document: Json,
    /// A line for each record that stays, with the reason.
    kept: Vec<String>,
    /// A line for each record of others that names the service, and does so no longer.
    changed: Vec<String>,
}

impl Unpublish {
    /// Deletes the records.
    ///
    /// # Errors
    /// One line: nothing is published under this name, or the controller does not answer. Nothing
    /// was changed then.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let transport = api::reach(self.which.clone(), environment)?;
        for _ in 0..ATTEMPTS {
            let removal = self.removal(&transport)?;
            let plan = changes::plan(&transport, &removal.document)?;
            // The plan must be of what was looked at.
            let is_done = self.preview
                || entries(&plan, "objects").is_empty()
                || self.removal(&transport)? == removal
                    && changes::apply(&transport, &removal.document, &plan)?;
            if is_done {
                return Ok(Outcome::Done(self.lines(removal, &plan)));
            }
        }
        Err(given_up())
    }

    fn lines(&self, removal: Removal, plan: &Json) -> Vec<String> {
        let mut lines: Vec<String> = entries(plan, "objects").iter().map(object_line).collect();
        lines.extend(removal.kept);
        lines.extend(removal.changed);
        lines.extend(output::access(plan));
        if self.preview || entries(plan, "objects").is_empty() {
            lines.push(NOTHING_CHANGED.to_owned());
        }
        lines
    }

    fn removal(&self, transport: &Transport) -> Result<Removal, CommandError> {
        let tagged = format!("tags.{TAG} = {}", literal(&self.name));
        let [configs, services, policies] = [CONFIGS, SERVICES, POLICIES]
            .map(|kind| list(transport, kind, Some(&tagged)))
            .map(|found| found.map(Found));
        let (configs, services, policies) = (configs?, services?, policies?);
        if [&configs, &services, &policies]
            .iter()
            .all(|found| found.0.is_empty())
        {
            return Err(CommandError::of(format!(
                "nothing in this network was published as {}",
                self.name
            )));
        }
        let mut sorting = Sorting::default();
        for service in &services.0 {
            sorting.sort(SERVICES, service, changed(service));
        }
        let made = services.ids();
        for policy in &policies.0 {
            let others = others(policy, &made);
            let names = (!others.is_empty())
                .then(|| format!("it names other services too, {}", others.join(", ")));
            sorting.sort(POLICIES, policy, names.or_else(|| changed(policy)));
        }
        for config in &configs.0 {
            let path = format!("{CONFIGS}/{}/services", encoded(word(config, "/id")));
            let users = list(transport, &path, None)?;
            let stays = users
                .iter()
                .find(|user| !sorting.ids.contains(word(user, "/id")));
            let used = stays.map(|user| format!("the service {} uses it", word(user, "/name")));
            sorting.sort(CONFIGS, config, used.or_else(|| changed(config)));
        }
        let mut changed = Vec::new();
        for service in services.0.iter().filter(|one| sorting.goes(one)) {
            let name = word(service, "/name");
            let named = literal(&format!("@{}", word(service, "/id")));
            for kind in [POLICIES, ROUTER_POLICIES] {
                let filter = format!("anyOf(serviceRoles) = {named}");
                for policy in list(transport, kind, Some(&filter))? {
                    if !sorting.goes(&policy) {
                        changed.push(shown(&format!(
                            "update {kind} {}: it names {name} no longer",
                            word(&policy, "/name")
                        )));
                    }
                }
            }
        }
        Ok(Removal {
            document: json!({ "delete": sorting.names }),
            kept: sorting.kept,
            changed,
        })
    }
}

/// Records of one kind.
struct Found(Vec<Json>);

impl Found {
    fn ids(&self) -> BTreeSet<&str> {
        self.0.iter().map(|record| word(record, "/id")).collect()
    }
}

/// Which records go, and which stay.
#[derive(Default)]
struct Sorting {
    /// The names of those that go, by kind.
    names: Map<String, Json>,
    /// The ids of those that go.
    ids: BTreeSet<String>,
    /// A line for each that stays.
    kept: Vec<String>,
}

impl Sorting {
    /// Sorts a record in; `reason` says why it stays.
    fn sort(&mut self, kind: &str, record: &Json, reason: Option<String>) {
        let name = word(record, "/name");
        if let Some(reason) = reason {
            self.kept
                .push(shown(&format!("keep {kind} {name}: {reason}")));
            return;
        }
        self.ids.insert(word(record, "/id").to_owned());
        let names = self.names.entry(kind).or_insert_with(|| json!([]));
        if let Some(names) = names.as_array_mut() {
            names.push(name.into());
        }
    }

    fn goes(&self, record: &Json) -> bool {
        self.ids.contains(word(record, "/id"))
    }
}

/// Why a record stays that was changed since it was made.
fn changed(record: &Json) -> Option<String> {
    let (made, last) = (word(record, "/createdAt"), word(record, "/updatedAt"));
    (made != last).then(|| format!("it was changed at {last}"))
}

/// The services, by name or role, that a policy names besides those with these ids.
fn others(policy: &Json, made: &BTreeSet<&str>) -> Vec<String> {
    let is_made = |role: &str| role.strip_prefix('@').is_some_and(|id| made.contains(id));
    entries(policy, "serviceRolesDisplay")
        .iter()
        .filter(|role| !is_made(word(role, "/role")))
        .map(|role| word(role, "/name").to_owned())
        .collect()
}

/// The records of a list.
fn list(
    transport: &Transport,
    path: &str,
    filter: Option<&str>,
) -> Result<Vec<Json>, CommandError> {
    let filter = filter.map(|filter| ("filter".to_owned(), filter.to_owned()));
    let request = ApiRequest {
        method: "GET".into(),
        path: format!("{BASE}/{path}"),
        query: filter.into_iter().collect(),
        ..ApiRequest::default()
    };
    match api::everything(transport, &request)? {
        Json::Array(records) => Ok(records),
        _ => Ok(Vec::new()),
    }
}
