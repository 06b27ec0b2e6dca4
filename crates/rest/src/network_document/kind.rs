//! A kind in a network document: functions generated from the kind's definition.

use std::sync::Arc;

use model::{
    entity::{Entity, Id, IdPath, Index, Kind, Record, TypedLookup},
    error::{Error, Result},
};
use policy::change::{Change, Draft, Lifecycle};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;
use store::Read;

/// A function that is called with each record.
pub(crate) type DeclaredVisitor<'v> = &'v mut dyn FnMut(DeclaredRecord) -> Result<()>;

/// A kind whose records occur in a network document: requests can replace a whole record, and each
/// record has a unique name.
#[derive(Clone)]
pub struct DeclaredKind {
    pub kind: Kind,
    /// The schema of a record in a request that creates it.
    pub schema: Arc<Json>,
    /// Members that can only be set when a record is created.
    pub fixed: &'static [&'static str],
    /// The paths of references to other records, and the kinds of those.
    pub references: Vec<(IdPath, Kind)>,
    /// Passes every record to a visitor, except system records.
    pub each: fn(&Read<'_>, DeclaredVisitor<'_>) -> Result<()>,
    /// The record with a name.
    pub find: fn(&Read<'_>, &str) -> Result<Option<DeclaredRecord>>,
    /// The name of the record with an id.
    pub name: fn(&Read<'_>, &str) -> Result<Option<String>>,
    /// Completes a draft with the defaults of missing members.
    pub whole: fn(Json) -> Result<Json>,
    /// Creates a record from a draft. Returns its id.
    pub create: fn(&Change<'_, '_>, Json) -> Result<String>,
    /// Creates a record with this id from a draft.
    pub create_as: fn(&Change<'_, '_>, &str, Json) -> Result<()>,
    /// Replaces the draft of the record with this id.
    pub replace: fn(&Change<'_, '_>, &str, Json) -> Result<()>,
    /// Deletes the record with an id.
    pub delete: fn(&Change<'_, '_>, &str) -> Result<()>,
}

/// A stored record.
pub struct DeclaredRecord {
    pub id: String,
    pub name: String,
    /// Its writable members; references are ids.
    pub draft: Json,
    /// Whether every request to delete it is rejected.
    pub(crate) is_kept: bool,
    /// Whether the controller created it by itself and nobody has changed it.
    pub(crate) is_factory: bool,
}

impl DeclaredKind {
    /// The kind with the schema of its drafts; `None` if its records have no unique name.
    pub fn of<E: Lifecycle + JsonSchema>(schema: Arc<Json>) -> Option<Self> {
        let is_named = E::FIELDS
            .iter()
            .any(|field| field.name == NAME && field.index == Index::Every);
        is_named.then(|| Self {
            kind: E::KIND,
            schema,
            fixed: E::FIXED,
            references: E::REFERENCES
                .iter()
                .flat_map(|one| one.paths().into_iter().map(|path| (path, one.kind)))
                .collect(),
            each: |read, visit| {
                read.each::<E>(|record| {
                    if record.is_system {
                        Ok(())
                    } else {
                        visit(declared(record)?)
                    }
                })
            },
            find: |read, name| read.find_by::<E>(NAME, name)?.map(declared).transpose(),
            name: |read, id| {
                Ok(read
                    .find(&Id::<E>::from_text(id))?
                    .map(declared)
                    .transpose()?
                    .map(|record| record.name))
            },
            whole: |json| {
                let mut draft: Draft<E> = parsed(json)?;
                draft.spec.tidy();
                written(&draft)
            },
            create: |change, json| Ok(change.create::<E>(parsed(json)?)?.id.into_text()),
            create_as: |change, id, json| {
                change
                    .create_as::<E>(Id::from_text(id), parsed(json)?)
                    .map(drop)
            },
            replace: |change, id, json| {
                let draft = parsed(json)?;
                change.edit(&Id::<E>::from_text(id), |_| Ok(Some(draft)))
            },
            delete: |change, id| change.delete(&Id::<E>::from_text(id)),
        })
    }
}

/// The member that identifies a record in a document.
pub(crate) const NAME: &str = "name";

fn declared<E: Lifecycle>(record: Record<E>) -> Result<DeclaredRecord> {
    let (is_kept, is_factory) = (E::is_kept(&record), E::is_factory(&record));
    let draft = written(&Draft {
        tags: record.tags,
        spec: record.spec,
    })?;
    let name = draft
        .get(NAME)
        .and_then(Json::as_str)
        .unwrap_or_default()
        .to_owned();
    Ok(DeclaredRecord {
        id: record.id.into_text(),
        name,
        draft,
        is_kept,
        is_factory,
    })
}

fn parsed<E: Entity>(json: Json) -> Result<Draft<E>> {
    serde_json::from_value(json).map_err(|error| Error::Unparseable(error.to_string()))
}

fn written(value: &impl Serialize) -> Result<Json> {
    serde_json::to_value(value)
        .map_err(|error| Error::Internal(format!("cannot write a draft as JSON: {error}")))
}
