//! Which record a row of the index belongs to, and which other record has a value that must be
//! unique.

use std::ops::{Bound, ControlFlow};

use crate::{
    index::{self, IndexEntry},
    registry::{DeleteRule, KindEntry},
    tx::{
        read::{Read, text},
        tables::Table,
    },
};
use model::{entity::Kind, error::Result};

/// What a row of the index belongs to.
pub(crate) enum Owner {
    /// A record that has the value, or a record that cannot be read.
    Record,
    /// No record; with the text for the report.
    Nobody(String),
}

impl Owner {
    pub(crate) fn of(read: &Read<'_>, key: &[u8], row: &[u8]) -> Result<Self> {
        let Some((code, id)) = index::parts(key, row) else {
            return Ok(Self::Nobody("a row of the index cannot be read".into()));
        };
        let Some((place, field)) = read.context.registry.field(code) else {
            return Ok(Self::Nobody(
                "the index has a row of an unknown field".into(),
            ));
        };
        let entry = read.context.registry.entry(place)?;
        let kind = entry.kind.name;
        let Some(bytes) = read.bytes(Table::Records(place), id.as_bytes())? else {
            return Ok(Self::Nobody(format!(
                "the index of {field} has the {kind} {id}, which does not exist"
            )));
        };
        let owns = (entry.parts)(id, &bytes)
            .map_or(true, |parts| parts.entries.iter().any(|own| own.key == key));
        if owns {
            Ok(Self::Record)
        } else {
            Ok(Self::Nobody(format!(
                "the index of {field} has a value that the {kind} {id} does not have"
            )))
        }
    }
}

/// The id of another record whose own content, not only the index, has the same value of a unique
/// field.
pub(crate) fn holder(
    read: &Read<'_>,
    entry: &KindEntry,
    place: usize,
    id: &str,
    own: &IndexEntry,
) -> Result<Option<String>> {
    let Some(prefix) = own.key.get(..own.prefix).filter(|_| own.unique) else {
        return Ok(None);
    };
    let end = index::after(prefix);
    let mut others = Vec::new();
    read.scan(
        Table::Index,
        (Bound::Included(prefix), Bound::Excluded(&end)),
        &mut |key, _| {
            let other = key
                .get(prefix.len()..)
                .and_then(|id| text(id).ok())
                .filter(|other| *other != id);
            others.extend(other.map(|other| (other.to_owned(), key.to_vec())));
            Ok(ControlFlow::Continue(()))
        },
    )?;
    for (other, key) in others {
        let bytes = read.bytes(Table::Records(place), other.as_bytes())?;
        let has = |bytes: Vec<u8>| {
            (entry.parts)(&other, &bytes)
                .is_ok_and(|parts| parts.entries.iter().any(|entry| entry.key == key))
        };
        if bytes.is_some_and(has) {
            return Ok(Some(other));
        }
    }
    Ok(None)
}

/// The rules of a kind's references by a field to another kind.
pub(crate) fn rules(
    entry: &KindEntry,
    field: &'static str,
    to: Kind,
) -> impl Iterator<Item = DeleteRule> {
    (entry.edges)()
        .into_iter()
        .filter(move |edge| edge.field == field && edge.to == to)
        .map(|edge| edge.rule)
}
