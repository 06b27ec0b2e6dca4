//! A write transaction: one job of the writer.

use std::{
    cell::{Cell, RefCell},
    ops::ControlFlow,
    sync::Arc,
};

use super::{
    edit::{Edit, NewTarget, entries_with_members},
    read::Read,
    tables::{RowsMut, Table},
};
use crate::{
    event::Event,
    history::visits::PendingVisits,
    index::{self, IndexEntry},
    registry::RemovedReference,
};
use model::{
    clock::Timestamp,
    entity::{
        AnyRecord, Author, Entity, Epoch, Id, Identity, Kind, Lookup, Record, RouterInfo,
        TypedLookup, history::Who, missing,
    },
    error::{Error, Result},
};

/// The greatest length of an id, in bytes.
const MAX_ID_LENGTH: usize = 256;

/// The transaction of one job: the queries of [`Read`], which see its own writes and those of the
/// jobs before it, and the writes.
///
/// An error that the job returns rolls back all its changes. A single call that fails changes
/// nothing, so that the job may continue after it.
pub struct Tx<'t> {
    pub(crate) read: Read<'t>,
    pub(crate) rows: &'t dyn RowsMut,
    pub(crate) events: RefCell<Vec<Event>>,
    /// The log-ins and log-outs so far.
    pub(crate) visits: RefCell<PendingVisits>,
    /// The author of the changes.
    pub(crate) author: RefCell<Arc<Author>>,
    /// The sequence of its first row in the history.
    pub(crate) first_row: Cell<Option<u64>>,
}

impl<'t> Tx<'t> {
    pub(crate) fn new(read: Read<'t>, rows: &'t dyn RowsMut, author: Arc<Author>) -> Self {
        let (events, visits) = (RefCell::default(), RefCell::default());
        Self {
            read,
            rows,
            events,
            visits,
            author: RefCell::new(author),
            first_row: Cell::default(),
        }
    }

    /// The transaction, for questions beyond those of a [`Lookup`].
    pub fn read(&self) -> &Read<'t> {
        &self.read
    }
}

impl Tx<'_> {
    /// Stores a new record. Its times are stored as given.
    ///
    /// # Errors
    /// [`Error::Duplicate`] for an id or a unique value that is taken; [`Error::Invalid`] for an id
    /// that is empty or longer than 256 bytes, or a required field that is empty;
    /// [`Error::NotFound`] with the field of a reference that leads to no record.
    pub fn insert<E: Entity>(&self, record: Record<E>) -> Result<()> {
        let id = record.id.as_str();
        if id.is_empty() || id.len() > MAX_ID_LENGTH {
            return Err(Error::invalid(
                "id",
                format!("must have 1 to {MAX_ID_LENGTH} bytes"),
                "",
            ));
        }
        if self.read().exists(E::KIND, id)? {
            return Err(Error::Duplicate {
                field: "id".into(),
                value: id.into(),
            });
        }
        self.whole(|| self.apply(Edit::put(None, record, self.is_by_system())?))
    }

    /// Replaces the record with the same id. Its times are stored as given.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none, otherwise as in [`Tx::insert`].
    pub fn put<E: Entity>(&self, record: Record<E>) -> Result<()> {
        self.replace(self.get(&record.id)?, record)
    }

    /// [`Tx::put`] over a record that this transaction has read as `old` and has not changed since;
    /// it is not read again.
    ///
    /// # Errors
    /// As in [`Tx::insert`].
    pub fn replace<E: Entity>(&self, old: Record<E>, new: Record<E>) -> Result<()> {
        debug_assert!(old.id == new.id, "a record replaces the one with its id");
        self.whole(|| self.apply(Edit::put(Some(old), new, self.is_by_system())?))
    }

    /// Sets the value of a setting; `None` removes it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_setting(&self, name: &str, value: Option<&[u8]>) -> Result<()> {
        match value {
            Some(value) => self.rows.insert(Table::Settings, name.as_bytes(), value),
            None => self.rows.remove(Table::Settings, name.as_bytes()),
        }
    }

    /// Deletes the record with an id, of the kind at `place` in the registry, even if other records
    /// refer to it or a tombstone covers it.
    pub(crate) fn remove(&self, place: usize, id: &str) -> Result<()> {
        let entry = self.read().context.registry.entry(place)?;
        self.read().step()?;
        let bytes = self
            .read()
            .bytes(Table::Records(place), id.as_bytes())?
            .ok_or_else(|| missing(entry.kind, id))?;
        self.apply((entry.deletion)(id, &bytes, self.is_by_system())?)
    }

    /// Removes the id `target` of a kind from a record of the kind at `place` in the registry,
    /// unless a tombstone covers that record.
    pub(crate) fn clear_reference(
        &self,
        place: usize,
        id: &str,
        kind: Kind,
        target: &str,
    ) -> Result<()> {
        let entry = self.read().context.registry.entry(place)?;
        let Some(bytes) = self.read().bytes(Table::Records(place), id.as_bytes())? else {
            return Ok(());
        };
        if !(entry.stands)(id, &bytes, self)? {
            return Ok(());
        }
        let cleared = RemovedReference {
            kind,
            id: target,
            at: Lookup::now(self),
            by_system: self.is_by_system(),
        };
        let edit = (entry.clearing)(id, &bytes, &cleared)?;
        self.whole(|| self.apply(edit))
    }

    pub(crate) fn is_by_system(&self) -> bool {
        self.author.borrow().who == Who::System
    }

    /// Sets the identity of the author for what is written from now on.
    pub fn known_as(&self, identity: &Id<Identity>, name: &str) {
        let author = Author::clone(&self.author.borrow());
        self.author
            .replace(Arc::new(author.known_as(identity, Some(name))));
    }

    /// Declares that a client makes what is written from now on, which has no right to change
    /// anything but what is its own.
    pub fn act_for_client(&self) {
        let author = Author::clone(&self.author.borrow());
        self.author.replace(Arc::new(author.into_client()));
    }

    /// Checks a change of one record against the other records and applies it.
    pub(crate) fn apply(&self, edit: Edit) -> Result<()> {
        let Edit {
            kind,
            id,
            row,
            removed,
            added,
            targets,
            event,
            history_entry,
        } = edit;
        targets
            .iter()
            .try_for_each(|target| self.check_target(kind, &id, target))?;
        for entry in &removed {
            self.rows.remove(Table::Index, &entry.key)?;
        }
        Error::all(
            added
                .iter()
                .map(|(entry, member)| self.check_unique(kind, entry, member, &id)),
        )?;
        for (entry, _) in &added {
            self.rows.insert(Table::Index, &entry.key, &entry.row)?;
        }
        let table = Table::Records(self.read().context.registry.place(kind)?);
        match row {
            Some(row) => self.rows.insert(table, id.as_bytes(), &row)?,
            None => self.rows.remove(table, id.as_bytes())?,
        }
        history_entry.map_or(Ok(()), |entry| self.append_history(entry))?;
        self.events.borrow_mut().extend(event);
        Ok(())
    }

    /// A new reference must lead to an existing record; a record may refer to itself.
    fn check_target(&self, kind: Kind, own: &str, target: &NewTarget) -> Result<()> {
        let itself = target.kind == kind && target.id == own;
        let is_there = itself
            || (self.read().exists(target.kind, &target.id)? && (target.stands)(self, &target.id)?);
        let missing = || Error::NotFound {
            kind: target.kind.name,
            id: target.id.clone(),
            field: Some(target.field.into()),
        };
        if is_there { Ok(()) } else { Err(missing()) }
    }

    /// Checks that no other record has the unique values of this one.
    ///
    /// # Errors
    /// [`Error::Duplicate`], [`Error::Several`] of them, or the file cannot be read.
    pub fn check_taken<E: Entity>(&self, record: &Record<E>) -> Result<()> {
        Error::all(
            entries_with_members(record).map(|(entry, member)| {
                self.check_unique(E::KIND, &entry, member, record.id.as_str())
            }),
        )
    }

    /// Checks that no record other than `own` has a unique entry. `member` is the member of a
    /// request that holds its field.
    fn check_unique(&self, kind: Kind, entry: &IndexEntry, member: &str, own: &str) -> Result<()> {
        if !entry.unique {
            return Ok(());
        }
        let value = index::value(&entry.key, &entry.row)
            .map(|(value, _)| value)
            .unwrap_or_default();
        let mut taken = false;
        self.read()
            .visit_ids(kind, entry.field, &value, &mut |id| {
                taken |= id != own;
                Ok(ControlFlow::Break(()))
            })?;
        let shown = String::from_utf8_lossy(&value).into_owned();
        if taken {
            Err(Error::Duplicate {
                field: member.into(),
                value: shown,
            })
        } else {
            Ok(())
        }
    }

    /// Undoes everything that `act` did if it fails.
    pub(crate) fn whole(&self, act: impl FnOnce() -> Result<()>) -> Result<()> {
        let (mark, events, visits) = (
            self.rows.mark(),
            self.events.borrow().len(),
            self.visits.borrow().len(),
        );
        let done = act();
        if done.is_err() {
            self.rows.rollback(mark)?;
            self.events.borrow_mut().truncate(events);
            self.visits.borrow_mut().truncate(visits);
        }
        done
    }
}

impl Lookup for Tx<'_> {
    fn record(&self, kind: Kind, id: &str) -> Result<Option<AnyRecord>> {
        self.read.record(kind, id)
    }
    fn ids(&self, kind: Kind, field: &'static str, value: &str) -> Result<Vec<String>> {
        self.read.ids(kind, field, value)
    }
    fn any(&self, kind: Kind, field: &'static str, value: &str) -> Result<bool> {
        Lookup::any(&self.read, kind, field, value)
    }
    fn ended_before(&self, kind: Kind, field: &'static str, value: &str) -> Result<Epoch> {
        self.read.ended_before(kind, field, value)
    }
    fn any_tombstone(&self) -> Result<bool> {
        self.read.any_tombstone()
    }
    fn router_info(&self, router: &str) -> Option<RouterInfo> {
        self.read.router_info(router)
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
