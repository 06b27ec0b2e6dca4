//! The kinds of a declared network, and the order in which their records need one another.

use serde_json::{Map, Value as Json, json};

use super::kind::DeclaredKind;
use crate::entity::Kind;

/// The member of the file that lists what must and must not be allowed.
pub const ASSERTIONS: &str = "assertions";
/// What an assertion looks like.
const PATTERN: &str = "^.+ must(-not)? (dial|bind) .+$";
/// So many assertions a file may have.
const MOST: usize = 1000;

/// The kinds of a declared network: what others name stands before what names it.
#[derive(Clone, Default)]
pub struct DeclaredKinds(Vec<DeclaredKind>);

impl DeclaredKinds {
    /// These kinds, each once. Between two of them that need neither other the order is kept.
    pub fn new(kinds: impl IntoIterator<Item = DeclaredKind>) -> Self {
        let mut left: Vec<DeclaredKind> = Vec::new();
        for kind in kinds {
            if !left.iter().any(|known| known.kind == kind.kind) {
                left.push(kind);
            }
        }
        let mut placed: Vec<DeclaredKind> = Vec::new();
        while !left.is_empty() {
            let is_free = |one: &DeclaredKind| {
                one.references.iter().all(|(_, kind)| *kind == one.kind || !left.iter().any(|other| other.kind == *kind))
            };
            // Kinds that need each other keep their order; there are none.
            let at = left.iter().position(is_free).unwrap_or_default();
            placed.push(left.remove(at));
        }
        Self(placed)
    }

    /// All of them, in the order in which their records can be created.
    pub fn all(&self) -> &[DeclaredKind] {
        &self.0
    }

    /// One of them.
    pub fn find(&self, kind: Kind) -> Option<&DeclaredKind> {
        self.0.iter().find(|one| one.kind == kind)
    }

    /// The JSON schema of a network: a list for each kind under its path, and assertions. Members that are not known are refused.
    pub fn schema(&self) -> Json {
        let mut properties = Map::new();
        for one in &self.0 {
            let mut items = one.schema.as_ref().clone();
            close(&mut items);
            let text = format!("All {}, by name. A kind that is left out is not looked at.", one.kind.path);
            properties.insert(one.kind.path.into(), json!({ "type": "array", "description": text, "items": items }));
        }
        properties.insert(
            ASSERTIONS.into(),
            json!({
                "type": "array",
                "description": "What policies must and must not allow: `alice must dial git`, `#guest must-not dial *`.",
                "maxItems": MOST,
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

/// Refuses members that a schema does not describe, here and further down.
fn close(schema: &mut Json) {
    let Some(object) = schema.as_object_mut() else { return };
    if object.contains_key("properties") {
        object.insert("unevaluatedProperties".into(), false.into());
    }
    below(object);
}

fn below(object: &mut Map<String, Json>) {
    for member in object.get_mut("properties").and_then(Json::as_object_mut).into_iter().flat_map(|members| members.values_mut()) {
        close(member);
    }
    if let Some(items) = object.get_mut("items") {
        close(items);
    }
    for either in object.get_mut("anyOf").and_then(Json::as_array_mut).into_iter().flatten() {
        close(either);
    }
    // A form stands beside the members that all forms have: those are not unknown.
    for form in object.get_mut("oneOf").and_then(Json::as_array_mut).into_iter().flatten().filter_map(Json::as_object_mut) {
        below(form);
    }
}
