//! A write transaction: one job of the writer.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    ops::{ControlFlow, Deref},
    sync::Arc,
};

use super::{
    delete,
    tables::{RowsMut, Table},
};
use crate::store::{
    Event, Read, codec,
    index::{self, IndexEntry},
};
use crate::{
    clock::Timestamp,
    entity::{AnyRecord, Author, Entity, Epoch, Facts, FactsExt, Field, Id, Index, Kind, Record, RouterLink, missing},
    error::{Error, Result},
    query::Value,
};

/// An id may have this many bytes.
const LONGEST_ID: usize = 256;

/// What one job sees and writes: everything it can ask is on [`Read`], with its own writes and those of the jobs before it.
///
/// An error that the job returns takes back everything it did. A single call that fails has done nothing, so a job may also go on.
pub struct Tx<'t> {
    pub(crate) read: Read<'t>,
    pub(crate) rows: &'t dyn RowsMut,
    pub(crate) events: RefCell<Vec<Event>>,
    /// Who is behind it.
    pub(crate) author: Arc<Author>,
    /// The sequence of its first row in the history.
    pub(crate) first_row: Cell<Option<u64>>,
}

impl<'t> Deref for Tx<'t> {
    type Target = Read<'t>;
    fn deref(&self) -> &Read<'t> {
        &self.read
    }
}

impl<'t> Tx<'t> {
    pub(crate) fn new(read: Read<'t>, rows: &'t dyn RowsMut, author: Arc<Author>) -> Self {
        Self { read, rows, events: RefCell::default(), author, first_row: Cell::default() }
    }
}

impl Tx<'_> {
    /// Stores a record that does not exist yet. Its times are stored as they are.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an id that exists, is empty or longer than 256 bytes; [`Error::Duplicate`]; [`Error::NotFound`] with the
    /// name of the reference, if it refers to nothing.
    pub fn insert<E: Entity>(&self, record: Record<E>) -> Result<()> {
        let id = record.id.as_str();
        if id.is_empty() || id.len() > LONGEST_ID {
            return Err(Error::invalid("id", format!("must have 1 to {LONGEST_ID} bytes"), ""));
        }
        if self.exists(E::KIND, id)? {
            return Err(Error::Duplicate { field: "id".into(), value: id.into() });
        }
        self.whole(|| self.write(None, record))
    }

    /// Stores a record in place of the one with its id. Its times are stored as they are.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none, else as in [`Tx::insert`].
    pub fn put<E: Entity>(&self, record: Record<E>) -> Result<()> {
        let old = self.get(&record.id)?;
        self.whole(|| self.write(Some(old), record))
    }

    /// Deletes a record, and does to those that refer to it what their references say.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Referenced`] if one that stays does not allow it.
    pub fn delete<E: Entity>(&self, id: &Id<E>) -> Result<()> {
        if !self.exists(E::KIND, id.as_str())? {
            return Err(missing(E::KIND, id));
        }
        self.whole(|| delete::delete(self, E::KIND, id.as_str()))
    }

    /// Keeps something under a name; `None` removes what is kept there.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_setting(&self, name: &str, value: Option<&[u8]>) -> Result<()> {
        match value {
            Some(value) => self.rows.insert(Table::Settings, name.as_bytes(), value),
            None => self.rows.remove(Table::Settings, name.as_bytes()),
        }
    }

    /// Deletes one record, whoever refers to it.
    pub(crate) fn remove<E: Entity>(&self, id: &Id<E>) -> Result<()> {
        // Also one that was ended.
        let old = self.load::<E>(id.as_str())?.ok_or_else(|| missing(E::KIND, id))?;
        let entries = index::entries(&old);
        for entry in &entries {
            self.rows.remove(Table::Index, &entry.key)?;
        }
        self.rows.remove(self.records::<E>()?, id.as_str().as_bytes())?;
        self.tell_change(Some(&old), None)?;
        self.events.borrow_mut().extend(Event::new(Some(old), None, entries.iter()));
        Ok(())
    }

    fn write<E: Entity>(&self, old: Option<Record<E>>, new: Record<E>) -> Result<()> {
        check_every(&new)?;
        self.check_targets(old.as_ref(), &new)?;
        let before = old.as_ref().map(index::entries).unwrap_or_default();
        let after = index::entries(&new);
        let without = |entry: &&IndexEntry, others: &[IndexEntry]| others.binary_search_by(|other| other.key.cmp(&entry.key)).is_err();
        let removed: Vec<&IndexEntry> = before.iter().filter(|entry| without(entry, &after)).collect();
        for entry in &removed {
            self.rows.remove(Table::Index, &entry.key)?;
        }
        let mut added: Vec<&IndexEntry> = after.iter().filter(|entry| without(entry, &before)).collect();
        // Of several values that are taken, the one that the kind names first is told.
        added.sort_by_key(|entry| E::FIELDS.iter().position(|field| field.name == entry.field));
        Error::all(added.iter().map(|entry| self.check_unique::<E>(entry, new.id.as_str())))?;
        for entry in &added {
            self.rows.insert(Table::Index, &entry.key, &entry.row)?;
        }
        self.rows.insert(self.records::<E>()?, new.id.as_str().as_bytes(), &codec::encode(&new)?)?;
        self.tell_change(old.as_ref(), Some(&new))?;
        self.events.borrow_mut().extend(Event::new(old, Some(new), removed.into_iter().chain(added)));
        Ok(())
    }

    /// What a record newly refers to must exist; it may refer to itself.
    fn check_targets<E: Entity>(&self, old: Option<&Record<E>>, new: &Record<E>) -> Result<()> {
        for reference in E::REFERENCES {
            let before: BTreeSet<&str> = old.map(reference.ids).unwrap_or_default().into_iter().collect();
            for id in (reference.ids)(new).into_iter().filter(|id| !before.contains(id)) {
                let itself = reference.kind == E::KIND && id == new.id.as_str();
                let is_there = itself || (self.exists(reference.kind, id)? && (reference.stands)(self, id)?);
                if !is_there {
                    return Err(Error::NotFound { kind: reference.kind.name, id: id.into(), field: Some(reference.field.into()) });
                }
            }
        }
        Ok(())
    }

    /// What of a record must be unique and is another's.
    ///
    /// # Errors
    /// [`Error::Duplicate`], [`Error::Several`] of them, or the file cannot be read.
    pub fn check_taken<E: Entity>(&self, record: &Record<E>) -> Result<()> {
        Error::all(index::entries(record).iter().map(|entry| self.check_unique::<E>(entry, record.id.as_str())))
    }

    fn check_unique<E: Entity>(&self, entry: &IndexEntry, own: &str) -> Result<()> {
        if !entry.unique {
            return Ok(());
        }
        let value = index::value(&entry.key, &entry.row).map(|(value, _)| value).unwrap_or_default();
        let mut taken = false;
        self.visit_ids(E::KIND, entry.field, &value, &mut |id| {
            taken |= id != own;
            Ok(ControlFlow::Break(()))
        })?;
        let shown = String::from_utf8_lossy(&value).into_owned();
        let member = E::MEMBERS.iter().find(|(field, _)| *field == entry.field).map_or(entry.field, |(_, member)| member);
        if taken { Err(Error::Duplicate { field: member.into(), value: shown }) } else { Ok(()) }
    }

    fn records<E: Entity>(&self) -> Result<Table> {
        Ok(Table::Records(self.core.registry.place(E::KIND)?))
    }

    /// Does all or nothing.
    pub(crate) fn whole(&self, act: impl FnOnce() -> Result<()>) -> Result<()> {
        let (mark, told) = (self.rows.mark(), self.events.borrow().len());
        let done = act();
        if done.is_err() {
            self.rows.rollback(mark)?;
            self.events.borrow_mut().truncate(told);
        }
        done
    }
}

/// What every record of a kind has must not be empty.
///
/// # Errors
/// [`Error::Invalid`] with the name of the field that is.
pub fn check_every<E: Entity>(record: &Record<E>) -> Result<()> {
    let empty = |field: &&Field<E>| !matches!((field.value)(record), Value::Text(text) if !text.is_empty());
    match E::FIELDS.iter().filter(|field| field.index == Index::Every).find(empty) {
        Some(field) => Err(Error::invalid(field.name, "must not be empty", "")),
        None => Ok(()),
    }
}

impl Facts for Tx<'_> {
    fn record(&self, kind: Kind, id: &str) -> Result<Option<AnyRecord>> {
        self.read.record(kind, id)
    }
    fn ids(&self, kind: Kind, field: &'static str, value: &str) -> Result<Vec<String>> {
        self.read.ids(kind, field, value)
    }
    fn any(&self, kind: Kind, field: &'static str, value: &str) -> Result<bool> {
        Facts::any(&self.read, kind, field, value)
    }
    fn ended(&self, kind: Kind, field: &'static str, value: &str) -> Result<Epoch> {
        self.read.ended(kind, field, value)
    }
    fn any_ended(&self) -> Result<bool> {
        self.read.any_ended()
    }
    fn link(&self, router: &str) -> Option<RouterLink> {
        self.read.link(router)
    }
    fn is_connected(&self, identity: &str) -> bool {
        self.read.is_connected(identity)
    }
    fn dynamic_cost(&self, terminator: &str) -> u16 {
        self.read.dynamic_cost(terminator)
    }
    fn now(&self) -> Timestamp {
        self.read.now()
    }
}
