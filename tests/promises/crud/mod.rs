//! The generic operations behave the same for every kind. Differences are in one row of `kinds.rs`
//! per kind.

mod lists;
mod refusals;
mod writes;

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use crate::{
    harness::{Answer, Base, Caller, encoded, fresh, interface, shared},
    kinds::{ENTANGLED, SAMPLES, Sample},
};

fn admin() -> &'static Caller {
    &shared().admin
}

/// A record created from a sample.
struct Made {
    name: String,
    body: Json,
    id: String,
}

impl Sample {
    fn make(&self) -> Made {
        let name = fresh(self.path.trim_end_matches('s'));
        let body = (self.body)(shared(), &name);
        let id = admin().post(&self.list(), body.clone()).expect(201).id();
        Made { name, body, id }
    }

    fn list(&self) -> String {
        format!("/{}", self.path)
    }

    fn one(&self, id: &str) -> String {
        format!("/{}/{id}", self.path)
    }

    /// Whether every body has this member, although the schema may not require it.
    fn needs(&self, name: &str) -> bool {
        self.tag == Some(name) || self.also.contains(&name)
    }

    #[track_caller]
    fn shown(&self, id: &str) -> Json {
        admin().get(&self.one(id)).expect(200).data().clone()
    }

    /// The schema of an operation's body on one record.
    fn schema(&self, method: &str) -> &'static Json {
        let path = if method == "post" {
            self.list()
        } else {
            self.one("{id}")
        };
        let document = &interface(Base::Management).document;
        let operation = &document["paths"][path.as_str()][method];
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        schema["$ref"]
            .as_str()
            .map_or(schema, |target| document.pointer(&target[1..]).unwrap())
    }

    /// A body for PUT with other values everywhere.
    fn other(&self, name: &str) -> Json {
        let mut body = (self.body)(shared(), name);
        merge(&mut body, &(self.changes)(shared()));
        body
    }
}

/// Merges the members of one object into another, recursively; tags and other maps are replaced.
fn merge(into: &mut Json, from: &Json) {
    for (name, value) in from.as_object().unwrap() {
        into[name] = value.clone();
    }
}

/// Compares two objects with a readable message.
#[track_caller]
fn same(left: &Json, right: &Json, but: &[&str], at: &str) {
    let (Json::Object(left), Json::Object(right)) = (left, right) else {
        panic!("{at}: {left} beside {right}")
    };
    for name in left.keys().chain(right.keys()).collect::<BTreeSet<_>>() {
        assert!(
            but.contains(&name.as_str()) || left.get(name) == right.get(name),
            "{at}: {name}: {:?} beside {:?}",
            left.get(name),
            right.get(name)
        );
    }
}

/// The names of all members of a schema, nested ones with their path; of several variants only that
/// of the sample.
fn members(schema: &Json, path: &str, form: Option<(&str, &Json)>) -> Vec<String> {
    let is_form =
        |one: &&Json| form.is_some_and(|(tag, word)| one["properties"][tag]["const"] == *word);
    let forms = schema["oneOf"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(is_form);
    let properties = std::iter::once(schema)
        .chain(forms)
        .filter_map(|one| one["properties"].as_object());
    let own = properties.flatten().flat_map(|(name, member)| {
        let place = format!("{path}/{name}");
        let inner = std::iter::once(member).chain(member["anyOf"].as_array().into_iter().flatten());
        match inner.into_iter().find(|one| one["properties"].is_object()) {
            Some(described) => members(described, &place, None),
            None => vec![place],
        }
    });
    own.collect()
}

/// Applies `patch` to `detail`; merges objects whose members the schema describes.
fn patched(detail: &mut Json, patch: &Json, schema: &Json) {
    for (name, value) in patch.as_object().unwrap() {
        let described = &schema["properties"][name];
        if described["properties"].is_object() {
            patched(&mut detail[name], value, described)
        } else {
            detail[name] = value.clone()
        }
    }
}
