//! Applies a network document in one transaction, which may be a dry run.

use std::collections::BTreeSet;

use data_encoding::HEXLOWER;
use model::error::{Error, Result};
use policy::{access::Assertion, change::Change};
use ring::digest::{Context, SHA256};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use store::Read;

use super::{
    assertion, defaults,
    differences::{MemberChange, differences},
    kind::{DeclaredKind, DeclaredRecord, NAME},
    kinds::{ASSERTIONS, DELETE, DeclaredKinds},
    names::DeclaredNames,
};

/// The number of hexadecimal digits of a tag.
const TAG_DIGITS: usize = 32;

/// The requested state of a network.
pub(crate) struct RequestedNetwork {
    /// Lists of records by the path of their kind, names of records to delete, and assertions.
    pub network: Map<String, Json>,
    /// Whether records of the listed kinds that the lists do not name are deleted.
    pub prune: bool,
    /// The maximum number of deletions.
    pub max_deletions: u64,
}

/// The kind of change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "NetworkAction")]
pub(crate) enum ChangeAction {
    Create,
    Update,
    Delete,
}

/// An object that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "NetworkChange")]
pub(crate) struct ObjectChange {
    /// The kind of change.
    pub action: ChangeAction,
    /// The kind, as a path segment.
    pub entity: &'static str,
    pub name: String,
    /// The members that an update changes.
    pub members: Vec<MemberChange>,
}

/// The result of applying a document.
pub(crate) struct Applied {
    pub objects: Vec<ObjectChange>,
    /// The text of each assertion and its parsed form.
    pub assertions: Vec<(String, Assertion)>,
}

/// A checksum of the document, its options and every record of the declared kinds: [`TAG_DIGITS`]
/// hexadecimal digits. Reads all these records, which takes too long for a job of the writer.
///
/// # Errors
/// A record cannot be read.
pub(crate) fn tag(
    kinds: &DeclaredKinds,
    read: &Read<'_>,
    wanted: &RequestedNetwork,
) -> Result<String> {
    let mut sum = Context::new(&SHA256);
    let mut add = |value: &dyn Fn() -> serde_json::Result<Vec<u8>>| {
        let bytes = value()
            .map_err(|error| Error::Internal(format!("cannot write a draft as JSON: {error}")))?;
        sum.update(&(bytes.len() as u64).to_be_bytes());
        sum.update(&bytes);
        Ok(())
    };
    add(&|| serde_json::to_vec(&(&wanted.network, wanted.prune, wanted.max_deletions)))?;
    for one in kinds.all() {
        (one.each)(read, &mut |record| {
            add(&|| serde_json::to_vec(&(one.kind.name, &record.id, &record.draft)))
        })?;
    }
    let digits = HEXLOWER.encode(sum.finish().as_ref());
    Ok(digits.chars().take(TAG_DIGITS).collect())
}

/// Applies the document.
///
/// # Errors
/// An object breaks a rule (the error names its place), or too many objects would be deleted. The
/// caller must then roll back the transaction.
pub(crate) fn apply(
    kinds: &DeclaredKinds,
    change: &Change<'_, '_>,
    wanted: &RequestedNetwork,
) -> Result<Applied> {
    let mut objects = write(kinds, change, &wanted.network)?;
    let deleted = delete(kinds, change, wanted)?;
    if !deleted.is_empty() {
        // The deletion of an object may have deleted or changed objects of the document that refer
        // to it.
        let is_kept = match write(kinds, change, &wanted.network) {
            Ok(changed) => changed.is_empty(),
            Err(Error::Invalid { .. } | Error::Several(_)) => false,
            Err(error) => return Err(error),
        };
        if !is_kept {
            return Err(Error::invalid(
                if wanted.prune { "prune" } else { DELETE },
                "an object of the file refers to an object that would be deleted",
                "",
            ));
        }
    }
    objects.extend(deleted);
    let names = DeclaredNames::of(kinds, change.read());
    let texts = wanted
        .network
        .get(ASSERTIONS)
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
        .filter_map(Json::as_str);
    let assertions = texts
        .enumerate()
        .map(|(at, text)| Ok((text.to_owned(), assertion::parse(&names, at, text)?)));
    Ok(Applied {
        objects,
        assertions: assertions.collect::<Result<_>>()?,
    })
}

fn items<'w>(network: &'w Map<String, Json>, of: &DeclaredKind) -> Option<&'w Vec<Json>> {
    network.get(of.kind.path).and_then(Json::as_array)
}

/// The names of the records of a kind that the document deletes.
fn deletions<'w>(
    network: &'w Map<String, Json>,
    of: &DeclaredKind,
) -> impl Iterator<Item = &'w str> {
    let names = network
        .get(DELETE)
        .and_then(|kinds| kinds.get(of.kind.path)?.as_array());
    names.into_iter().flatten().filter_map(Json::as_str)
}

fn name_of(item: &Json) -> &str {
    item.get(NAME).and_then(Json::as_str).unwrap_or_default()
}

/// Creates and updates objects.
fn write(
    kinds: &DeclaredKinds,
    change: &Change<'_, '_>,
    network: &Map<String, Json>,
) -> Result<Vec<ObjectChange>> {
    let names = DeclaredNames::of(kinds, change.read());
    let mut objects = Vec::new();
    for one in kinds.all() {
        let mut seen = BTreeSet::new();
        for item in items(network, one).into_iter().flatten() {
            let name = name_of(item);
            let place = format!("{}.{name}", one.kind.path);
            if !seen.insert(name) {
                return Err(Error::invalid(place, "occurs twice in the file", name));
            }
            objects
                .extend(put(one, &names, change, item).map_err(|error| in_place(&place, error))?);
        }
    }
    Ok(objects)
}

/// Creates or updates one object. Does nothing if the object already agrees with the document.
fn put(
    of: &DeclaredKind,
    names: &DeclaredNames<'_>,
    change: &Change<'_, '_>,
    item: &Json,
) -> Result<Option<ObjectChange>> {
    let name = name_of(item);
    let object = |action, members| {
        Some(ObjectChange {
            action,
            entity: of.kind.path,
            name: name.to_owned(),
            members,
        })
    };
    let (mut item, stored) = (item.clone(), (of.find)(change.read(), name)?);
    if let Json::Object(members) = &mut item {
        defaults::fill(of, members, stored.as_ref().map(|stored| &stored.draft));
    }
    let draft = names.to_ids(of, item)?;
    let Some(stored) = stored else {
        let whole = (of.whole)(draft.clone())?;
        let id = (of.create)(change, draft)?;
        // Creation may give some members other values than the draft.
        if (of.find)(change.read(), name)?.is_some_and(|made| made.draft != whole) {
            (of.replace)(change, &id, whole)?;
        }
        return Ok(object(ChangeAction::Create, Vec::new()));
    };
    let whole = (of.whole)(with_fixed(of, draft, &stored)?)?;
    if whole == stored.draft {
        return Ok(None);
    }
    let (before, after) = (
        names.to_names(of, stored.draft)?,
        names.to_names(of, whole.clone())?,
    );
    (of.replace)(change, &stored.id, whole)?;
    Ok(object(ChangeAction::Update, differences(&before, &after)))
}

/// Fills in the stored values of members that only creation sets.
fn with_fixed(of: &DeclaredKind, mut draft: Json, stored: &DeclaredRecord) -> Result<Json> {
    let Some(members) = draft.as_object_mut() else {
        return Ok(draft);
    };
    for name in of.fixed {
        let Some(kept) = stored.draft.get(*name) else {
            continue;
        };
        match members.get(*name) {
            Some(value) if value != kept => {
                return Err(Error::invalid(
                    *name,
                    "is set when the object is created and cannot be changed",
                    value.to_string(),
                ));
            }
            Some(_) => {}
            None => drop(members.insert((*name).into(), kept.clone())),
        }
    }
    Ok(draft)
}

/// The records that go: those whose names are in the list of deletions of their kind, and, if they
/// are pruned, those that the document does not name, of the kinds that it lists. A name that no
/// record has is left out.
fn doomed<'k>(
    kinds: &'k DeclaredKinds,
    read: &Read<'_>,
    wanted: &RequestedNetwork,
) -> Result<Vec<(&'k DeclaredKind, DeclaredRecord)>> {
    let mut doomed = Vec::new();
    for one in kinds.all().iter().rev() {
        let listed = items(&wanted.network, one);
        let named: BTreeSet<&str> = listed.into_iter().flatten().map(name_of).collect();
        let goes: BTreeSet<&str> = deletions(&wanted.network, one).collect();
        for name in &goes {
            if named.contains(name) {
                let place = format!("{DELETE}.{}", one.kind.path);
                let reason = format!("is in the list {} of the file, too", one.kind.path);
                return Err(Error::invalid(place, reason, *name));
            }
            doomed.extend((one.find)(read, name)?.map(|record| (one, record)));
        }
        if !wanted.prune || listed.is_none() {
            continue;
        }
        (one.each)(read, &mut |record| {
            let name = record.name.as_str();
            let is_pruned = !record.is_kept
                && !record.is_factory
                && !named.contains(name)
                && !goes.contains(name);
            doomed.extend(is_pruned.then_some((one, record)));
            Ok(())
        })?;
    }
    Ok(doomed)
}

/// Deletes the records that go.
fn delete(
    kinds: &DeclaredKinds,
    change: &Change<'_, '_>,
    wanted: &RequestedNetwork,
) -> Result<Vec<ObjectChange>> {
    let doomed = doomed(kinds, change.read(), wanted)?;
    let count = doomed.len() as u64;
    if count > wanted.max_deletions {
        let reason = format!(
            "{count} objects would be deleted; at most {} are allowed: raise the limit or keep more of them",
            wanted.max_deletions
        );
        return Err(Error::invalid(
            "maxDeletions",
            reason,
            wanted.max_deletions.to_string(),
        ));
    }
    let mut objects = Vec::new();
    for (of, record) in doomed {
        let (id, name) = (record.id, record.name);
        // This object may have been deleted together with another one.
        if (of.name)(change.read(), &id)?.is_some() {
            (of.delete)(change, &id)
                .map_err(|error| in_place(&format!("{}.{name}", of.kind.path), error))?;
        }
        objects.push(ObjectChange {
            action: ChangeAction::Delete,
            entity: of.kind.path,
            name,
            members: Vec::new(),
        });
    }
    Ok(objects)
}

/// Adds the place of an object to an error about it.
fn in_place(place: &str, error: Error) -> Error {
    match error {
        Error::Invalid {
            field,
            reason,
            value,
            is_missing,
        } => Error::Invalid {
            field: format!("{place}.{field}"),
            reason,
            value,
            is_missing,
        },
        Error::Duplicate { field, value } => Error::Duplicate {
            field: format!("{place}.{field}"),
            value,
        },
        Error::Several(errors) => Error::Several(
            errors
                .into_iter()
                .map(|error| in_place(place, error))
                .collect(),
        ),
        Error::Busy { .. } | Error::Storage(_) | Error::Internal(_) | Error::Damaged { .. } => {
            error
        }
        other => Error::invalid(place, other.to_string(), ""),
    }
}
