//! Exports the network as a document: the records of the declared kinds, sorted by name.

use std::collections::BTreeSet;

use model::error::Result;
use serde_json::{Map, Value as Json};
use store::Read;

use super::{
    kind::{DeclaredKind, NAME},
    kinds::DeclaredKinds,
    names::DeclaredNames,
};

/// The network in a transaction. It has a list for every kind, even an empty one.
///
/// # Errors
/// A record cannot be read.
pub(crate) fn export(kinds: &DeclaredKinds, read: &Read<'_>) -> Result<Map<String, Json>> {
    let names = DeclaredNames::of(kinds, read);
    let mut network = Map::new();
    for one in kinds.all() {
        let mut records = Vec::new();
        (one.each)(read, &mut |record| {
            records.extend((!record.is_factory).then_some((record.name, record.draft)));
            Ok(())
        })?;
        records.sort_by(|(one, _), (other, _)| one.cmp(other));
        let required = required(&one.schema);
        let shown = records
            .into_iter()
            .map(|(_, draft)| names.to_names(one, without_defaults(one, &required, draft)));
        network.insert(one.kind.path.into(), shown.collect::<Result<_>>()?);
    }
    Ok(network)
}

/// The members that a schema requires, including those that only one of its forms requires.
fn required(schema: &Json) -> BTreeSet<String> {
    let forms = schema
        .get("oneOf")
        .and_then(Json::as_array)
        .into_iter()
        .flatten();
    let names = std::iter::once(schema)
        .chain(forms)
        .filter_map(|form| form.get("required")?.as_array());
    names
        .flatten()
        .filter_map(Json::as_str)
        .map(str::to_owned)
        .collect()
}

/// A draft without members that have their default value. The name comes first, the tags last.
fn without_defaults(of: &DeclaredKind, required: &BTreeSet<String>, draft: Json) -> Json {
    let Json::Object(mut members) = draft else {
        return draft;
    };
    let least: Map<String, Json> = members
        .iter()
        .filter(|(name, _)| required.contains(*name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    // A draft that cannot be parsed without its optional members keeps them all.
    if let Ok(usual) = (of.whole)(Json::Object(least)) {
        members.retain(|name, value| {
            required.contains(name) || usual.get(name.as_str()) != Some(value)
        });
    }
    let mut ordered = Map::new();
    let tags = members.shift_remove_entry("tags");
    ordered.extend(members.shift_remove_entry(NAME));
    ordered.extend(members);
    ordered.extend(tags);
    Json::Object(ordered)
}
