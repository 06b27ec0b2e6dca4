//! The kinds of a network document, in the order in which their records can be created.

use model::entity::Kind;
use serde_json::{Map, Value as Json, json};

use super::{defaults::relax, kind::DeclaredKind};

/// The member of the document that lists the assertions.
pub(crate) const ASSERTIONS: &str = "assertions";
/// The member of the document that names records to delete.
pub(crate) const DELETE: &str = "delete";
/// The form of an assertion, as a regular expression.
const PATTERN: &str = "^.+ must(-not)? (dial|bind) .+$";
/// The maximum number of assertions in a document.
const LIMIT: usize = 1000;

/// The kinds of a network document. A kind comes after the kinds that its records refer to.
#[derive(Clone, Default)]
pub struct DeclaredKinds(Vec<DeclaredKind>);

impl DeclaredKinds {
    /// Sorts kinds and drops duplicates. Kinds that do not refer to each other keep their order.
    pub(crate) fn new(kinds: impl IntoIterator<Item = DeclaredKind>) -> Self {
        let mut left: Vec<DeclaredKind> = Vec::new();
        for kind in kinds {
            if !left.iter().any(|known| known.kind == kind.kind) {
                left.push(kind);
            }
        }
        let mut placed: Vec<DeclaredKind> = Vec::new();
        while !left.is_empty() {
            let is_free = |one: &DeclaredKind| {
                one.references.iter().all(|(_, kind)| {
                    *kind == one.kind || !left.iter().any(|other| other.kind == *kind)
                })
            };
            // The first kind if none is free: kinds that refer to each other keep their order. At
            // present there are no such kinds.
            let at = left.iter().position(is_free).unwrap_or_default();
            placed.push(left.remove(at));
        }
        Self(placed)
    }

    /// All of them, in the order in which their records can be created.
    pub fn all(&self) -> &[DeclaredKind] {
        &self.0
    }

    /// The entry of a kind, if it has one.
    pub(crate) fn find(&self, kind: Kind) -> Option<&DeclaredKind> {
        self.0.iter().find(|one| one.kind == kind)
    }

    /// The JSON schema of a network: a list for each kind under its path, names to delete, and
    /// assertions. Unknown members are rejected.
    pub(crate) fn schema(&self) -> Json {
        let mut properties = Map::new();
        for one in &self.0 {
            let mut items = one.schema.as_ref().clone();
            close(&mut items);
            relax(&mut items);
            let text = format!(
                "All {}, by name. A kind that is left out is not changed.",
                one.kind.path
            );
            properties.insert(
                one.kind.path.into(),
                json!({ "type": "array", "description": text, "items": items }),
            );
        }
        let names = |one: &DeclaredKind| {
            let text = format!("The names of {} to delete.", one.kind.path);
            let names =
                json!({ "type": "array", "description": text, "items": { "type": "string" } });
            (one.kind.path.to_owned(), names)
        };
        let names: Map<String, Json> = self.0.iter().map(names).collect();
        properties.insert(
            DELETE.into(),
            json!({
                "type": "object",
                "description": "Objects that must not exist: a list of names for each kind. A name that no object has is passed over.",
                "properties": names,
                "additionalProperties": false
            }),
        );
        properties.insert(
            ASSERTIONS.into(),
            json!({
                "type": "array",
                "description": "What policies must and must not allow, such as `alice must dial git` or `#guest must-not dial *`.",
                "maxItems": LIMIT,
                "items": { "type": "string", "pattern": PATTERN, "examples": ["alice must dial git"] }
            }),
        );
        json!({
            "type": "object",
            "description": "A network: its records by name, not by id, and without secrets.",
            "properties": properties,
            "additionalProperties": false
        })
    }
}

/// Makes a schema reject members that it does not describe, at every level.
fn close(schema: &mut Json) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if object.contains_key("properties") {
        object.insert("unevaluatedProperties".into(), false.into());
    }
    below(object);
}

fn below(object: &mut Map<String, Json>) {
    for member in object
        .get_mut("properties")
        .and_then(Json::as_object_mut)
        .into_iter()
        .flat_map(|members| members.values_mut())
    {
        close(member);
    }
    if let Some(items) = object.get_mut("items") {
        close(items);
    }
    for either in object
        .get_mut("anyOf")
        .and_then(Json::as_array_mut)
        .into_iter()
        .flatten()
    {
        close(either);
    }
    // The members that all forms share are described beside `oneOf`, so a form itself must not
    // reject unknown members.
    for form in object
        .get_mut("oneOf")
        .and_then(Json::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Json::as_object_mut)
    {
        below(form);
    }
}
