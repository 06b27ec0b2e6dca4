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
        api::{
            self, encoded, output,
            request::{ApiRequest, MANAGEMENT},
            transport::Transport,
        },
        failure::{CommandError, CommandResult},
        network_document::{entries, object_line, word},
    },
};

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
    updates: Vec<String>,
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
        lines.extend(removal.updates);
        lines.extend(output::access(plan));
        if self.preview || entries(plan, "objects").is_empty() {
            lines.push(NOTHING_CHANGED.to_owned());
        }
        lines
    }

    fn removal(&self, transport: &Transport) -> Result<Removal, CommandError> {
        let tagged = format!("tags.{TAG} = {}", literal(&self.name));
        let configs = list(transport, CONFIGS, Some(&tagged))?;
        let services = list(transport, SERVICES, Some(&tagged))?;
        let policies = list(transport, POLICIES, Some(&tagged))?;
        if configs.is_empty() && services.is_empty() && policies.is_empty() {
            return Err(CommandError::of(format!(
                "nothing in this network was published as {}",
                self.name
            )));
        }
        let mut sorting = Sorting::default();
        for service in &services {
            sorting.sort(SERVICES, service, changed(service));
        }
        for policy in &policies {
            let others = others(policy, &self.name);
            let names = (!others.is_empty())
                .then(|| format!("it names other services too, {}", others.join(", ")));
            sorting.sort(POLICIES, policy, names.or_else(|| changed(policy)));
        }
        for config in &configs {
            let path = format!("{CONFIGS}/{}/services", encoded(word(config, "/id")));
            let users = list(transport, &path, None)?;
            let stays = users
                .iter()
                .find(|user| !sorting.ids.contains(word(user, "/id")));
            let used = stays.map(|user| format!("the service {} uses it", word(user, "/name")));
            sorting.sort(CONFIGS, config, used.or_else(|| changed(config)));
        }
        let mut updates = Vec::new();
        for service in services.iter().filter(|one| sorting.goes(one)) {
            let name = word(service, "/name");
            let named = literal(&format!("@{}", word(service, "/id")));
            for kind in [POLICIES, ROUTER_POLICIES] {
                let filter = format!("anyOf(serviceRoles) = {named}");
                for policy in list(transport, kind, Some(&filter))? {
                    if !sorting.goes(&policy) {
                        updates.push(shown(&format!(
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
            updates,
        })
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

/// The services, by name or role, that a policy names besides the one with this name.
fn others(policy: &Json, service: &str) -> Vec<String> {
    let own = format!("@{service}");
    let names = entries(policy, "serviceRolesDisplay").iter();
    names
        .map(|role| word(role, "/name").to_owned())
        .filter(|name| *name != own)
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
        path: format!("{MANAGEMENT}/{path}"),
        query: filter.into_iter().collect(),
        ..ApiRequest::default()
    };
    match api::everything(transport, &request)? {
        Json::Array(records) => Ok(records),
        _ => Ok(Vec::new()),
    }
}
