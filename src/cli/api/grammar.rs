//! The command words of each operation of the route tables.
//!
//! The rule: a verb, the literal segments of the path in order, the values of the path's parameters
//! in order, then flags. The verb of GET is `list` if the answer is a list, otherwise `show`; of
//! PATCH `update`; of DELETE `delete`. PUT is `replace` and POST is `create` if the same path also
//! has GET. Any other PUT or POST is an action: its verb is the last literal of the path, or the
//! last literal of the shortest prefix that is itself an action. The root of an interface is called
//! `root`. A command without the name of an interface refers to the first of `INTERFACES` that has
//! it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use model::entity::{kebab, plural};
use rest::{Interface, Interfaces, LazyDocument};
use serde_json::Value as Json;

/// The names of the interfaces on the command line, in order of precedence.
pub const INTERFACES: [&str; 4] = ["management", "overkeep", "fabric", "client"];

/// An operation and its command words.
#[derive(Debug, Clone)]
pub struct Operation {
    /// The name of its interface on the command line.
    pub interface: &'static str,
    pub base: &'static str,
    pub method: &'static str,
    pub path: String,
    pub summary: String,
    pub verb: String,
    pub nouns: Vec<String>,
    /// Members and lists that hold ids of other records: their path, and the path of the kind.
    pub references: Vec<(&'static str, &'static str)>,
}

/// Every operation, and the OpenAPI documents of the interfaces.
pub struct Grammar {
    pub operations: Vec<Operation>,
    documents: BTreeMap<&'static str, Arc<LazyDocument>>,
}

impl Grammar {
    /// The grammar of the interfaces.
    pub fn of(interfaces: &Interfaces) -> Self {
        let Interfaces {
            management,
            client,
            overkeep,
            fabric,
        } = interfaces;
        let tables: [&Interface; 4] = [management, overkeep, fabric, client];
        let documents = INTERFACES
            .into_iter()
            .zip(tables.map(|table| table.document.clone()))
            .collect();
        let mut operations = Vec::new();
        for (name, table) in INTERFACES.into_iter().zip(tables) {
            let paths = Paths::of(table);
            operations.extend(table.rows().map(|row| {
                let (verb, nouns) = paths.words(row.method, &row.path);
                Operation {
                    interface: name,
                    base: table.base,
                    method: row.method,
                    path: row.path.clone(),
                    summary: row.summary.clone(),
                    verb,
                    nouns,
                    references: row.operation.references.clone(),
                }
            }));
        }
        Self {
            operations,
            documents,
        }
    }

    /// The description of an operation in its OpenAPI document.
    pub fn described(&self, operation: &Operation) -> &Json {
        let item = self
            .document(operation.interface)
            .get("paths")
            .and_then(|paths| paths.get(&operation.path));
        item.and_then(|item| item.get(operation.method.to_lowercase()))
            .unwrap_or(&Json::Null)
    }

    /// The schema of the JSON body, if any, and the media types of the body.
    pub fn body(&self, operation: &Operation) -> Option<(Option<&Json>, Vec<&str>)> {
        let content = self
            .described(operation)
            .get("requestBody")?
            .get("content")?
            .as_object()?;
        let schema = content
            .get("application/json")
            .and_then(|json| json.get("schema"));
        Some((
            schema.map(|schema| self.resolved(operation.interface, schema)),
            content.keys().map(String::as_str).collect(),
        ))
    }

    /// The schema of `data` in a successful answer.
    pub fn answered(&self, operation: &Operation) -> Option<&Json> {
        let responses = self.described(operation).get("responses")?.as_object()?;
        let (_, good) = responses
            .iter()
            .find(|(status, _)| status.starts_with('2'))?;
        let whole = self.resolved(
            operation.interface,
            good.pointer("/content/application~1json/schema")?,
        );
        whole
            .pointer("/properties/data")
            .map(|data| self.resolved(operation.interface, data))
    }

    /// The members of the records in the list that an operation answers.
    pub(crate) fn listed_members(&self, operation: &Operation) -> Vec<String> {
        let items = self.answered(operation).and_then(|list| list.get("items"));
        let record = items.map(|items| self.resolved(operation.interface, items));
        let forms = record
            .and_then(|record| record.get("oneOf")?.as_array())
            .into_iter()
            .flatten();
        let forms = forms.map(|form| self.resolved(operation.interface, form));
        let members = record
            .into_iter()
            .chain(forms)
            .filter_map(|form| form.get("properties")?.as_object());
        members.flat_map(serde_json::Map::keys).cloned().collect()
    }

    /// The schema that a `$ref` refers to, or the schema itself.
    pub(crate) fn resolved<'j>(&'j self, interface: &str, schema: &'j Json) -> &'j Json {
        let name = schema
            .get("$ref")
            .and_then(Json::as_str)
            .and_then(|reference| reference.rsplit('/').next());
        let found = name.and_then(|name| {
            self.document(interface)
                .pointer("/components/schemas")?
                .get(name)
        });
        found.unwrap_or(schema)
    }

    fn document(&self, interface: &str) -> &Json {
        self.documents
            .get(interface)
            .map_or(&Json::Null, |document| &***document)
    }

    /// Whether an interface has an operation.
    pub fn has(&self, interface: &str, method: &str, path: &str) -> bool {
        self.operations
            .iter()
            .any(|one| one.interface == interface && one.method == method && one.path == path)
    }

    /// The operation that shows the configuration file of a record that an operation answers;
    /// `None` if its kind has none.
    pub fn configuration(&self, operation: &Operation) -> Option<&Operation> {
        let answers = ["list", "show", "create"].contains(&operation.verb.as_str());
        let kind = operation
            .path
            .strip_suffix("/{id}")
            .unwrap_or(&operation.path);
        let path = format!("{kind}/{{id}}/configuration");
        self.operations
            .iter()
            .find(|one| answers && one.method == "GET" && one.path == path)
    }

    /// The interface that lists the records of a path: this one, or else the first that has the
    /// list.
    pub fn lists(&self, interface: &str, path: &str) -> Option<&Operation> {
        let listing = |one: &&Operation| one.method == "GET" && one.path == path;
        let all = || self.operations.iter().filter(listing);
        all()
            .find(|one| one.interface == interface)
            .or_else(|| all().next())
    }

    /// The path of a kind by its singular name: `auth-policies` for `authPolicy`.
    pub(crate) fn kind_of(&self, interface: &str, singular: &str) -> Option<String> {
        let path = format!("/{}", plural(&kebab(singular)));
        self.has(interface, "GET", &path).then_some(path)
    }
}

/// The paths of an interface.
struct Paths<'i> {
    answering: BTreeSet<&'i str>,
    lists: BTreeSet<&'i str>,
    actions: BTreeSet<&'i str>,
}

impl<'i> Paths<'i> {
    fn of(table: &'i Interface) -> Self {
        let of = |methods: &[&str]| {
            table
                .rows()
                .filter(|row| methods.contains(&row.method))
                .map(|row| row.path.as_str())
                .collect()
        };
        let answering: BTreeSet<&str> = of(&["GET"]);
        let actions = of(&["POST", "PUT"])
            .into_iter()
            .filter(|path| !answering.contains(path) && !path.ends_with('}'))
            .collect();
        let is_list = |path: &&str| {
            answering
                .iter()
                .any(|one| one.strip_prefix(path).is_some_and(is_parameter))
                || answers_list(table, path)
        };
        Self {
            lists: answering.iter().copied().filter(is_list).collect(),
            answering,
            actions,
        }
    }

    fn words(&self, method: &str, path: &str) -> (String, Vec<String>) {
        let literals = |path: &str| -> Vec<String> {
            path.split('/')
                .filter(|part| !part.is_empty() && !part.starts_with('{'))
                .map(str::to_owned)
                .collect()
        };
        let mut nouns = literals(path);
        let verb = match method {
            "GET" if self.lists.contains(path) => "list",
            "GET" => "show",
            "PATCH" => "update",
            "DELETE" => "delete",
            "PUT" if self.answering.contains(path) => "replace",
            "POST" if self.answering.contains(path) => "create",
            _ => {
                let prefixes = path
                    .match_indices('/')
                    .map(|(at, _)| path.get(..at).unwrap_or_default())
                    .chain([path]);
                let first = prefixes
                    .into_iter()
                    .find(|prefix| self.actions.contains(prefix))
                    .unwrap_or(path);
                let at = literals(first).len().saturating_sub(1);
                let verb = if at < nouns.len() {
                    nouns.remove(at)
                } else {
                    method.to_lowercase()
                };
                return (verb, nouns);
            }
        };
        if nouns.is_empty() {
            nouns.push("root".into());
        }
        (verb.into(), nouns)
    }
}

/// `/{id}`
fn is_parameter(rest: &str) -> bool {
    rest.starts_with("/{") && rest.ends_with('}') && rest.matches('/').count() == 1
}

/// Whether GET of a path answers a list.
fn answers_list(table: &Interface, path: &str) -> bool {
    let document = &table.document;
    let schema = document.get("paths").and_then(|paths| {
        paths
            .get(path)?
            .pointer("/get/responses/200/content/application~1json/schema")
    });
    let name = schema.and_then(|schema| schema.get("$ref")?.as_str()?.rsplit('/').next());
    let envelope = name.and_then(|name| document.pointer("/components/schemas")?.get(name));
    envelope
        .and_then(|envelope| envelope.pointer("/properties/data/type"))
        .is_some_and(|kind| kind == "array")
}
