//! The queries of a transaction. A [`Tx`](super::write::Tx) gives one of its own state.

use std::{
    cell::RefCell,
    ops::{Bound, ControlFlow},
};

use super::tables::{ALL, Keys, Rows, Table, Visit};
use crate::online::Online;
use crate::{codec, context::Context, index, list::scan_limit::ScanPermit};
use model::{
    clock::Timestamp,
    entity::{
        AnyRecord, Entity, Epoch, Id, Kind, Lookup, Record, RouterInfo, TypedLookup, tombstone,
    },
    error::{Error, Result},
};

/// The store at one moment. Fields and references have the names of the kind's facts.
pub struct Read<'t> {
    pub(crate) rows: &'t dyn Rows,
    pub(crate) context: &'t Context,
    pub now: Timestamp,
    /// The limit, if this is a scan.
    pub(crate) permit: Option<&'t ScanPermit<'t>>,
}

impl Read<'_> {
    /// The connections at this moment, which belong to no transaction.
    pub fn online(&self) -> &Online {
        &self.context.online
    }

    /// The record with this value of an indexed field; if several have it, the one with the
    /// smallest id.
    ///
    /// # Errors
    /// It is damaged, or the file cannot be read.
    pub fn find_by<E: Entity>(
        &self,
        field: &'static str,
        value: &str,
    ) -> Result<Option<Record<E>>> {
        self.find_id_by::<E>(field, value)?
            .map_or(Ok(None), |id| self.standing::<E>(id.as_str()))
    }

    /// The id of the record that [`Read::find_by`] would read. The record itself is not read, so it
    /// may be under a tombstone.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn find_id_by<E: Entity>(&self, field: &'static str, value: &str) -> Result<Option<Id<E>>> {
        let mut first = None;
        self.visit_ids(E::KIND, field, value.as_bytes(), &mut |id| {
            first = Some(Id::from_text(id));
            Ok(ControlFlow::Break(()))
        })?;
        Ok(first)
    }

    /// The record with this id, or else with this name.
    ///
    /// # Errors
    /// It is damaged, or the file cannot be read.
    pub fn find_named<E: Entity>(&self, name: &str) -> Result<Option<Record<E>>> {
        let by_id = self.find(&Id::from_text(name))?;
        if by_id.is_some() {
            Ok(by_id)
        } else {
            self.find_by("name", name)
        }
    }

    /// Whether any record of the kind has this value of an indexed field; no record is read.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn any<E: Entity>(&self, field: &'static str, value: &str) -> Result<bool> {
        Lookup::any(self, E::KIND, field, value)
    }

    /// The number of records of the kind.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn count<E: Entity>(&self) -> Result<u64> {
        self.count_of(E::KIND)
    }

    /// [`Read::count`] for a kind that is known at run time only.
    ///
    /// # Errors
    /// The file cannot be read, or the store was opened without the kind.
    pub fn count_of(&self, kind: Kind) -> Result<u64> {
        self.rows
            .len(Table::Records(self.context.registry.place(kind)?))
    }

    /// Calls `visit` with every record of the kind, ordered by id, also with records under a
    /// tombstone that are not deleted yet.
    ///
    /// # Errors
    /// A record is damaged, the file cannot be read, or the first error of `visit`.
    pub fn each<E: Entity>(&self, mut visit: impl FnMut(Record<E>) -> Result<()>) -> Result<()> {
        self.before_all::<E>()?;
        let table = Table::Records(self.context.registry.place(E::KIND)?);
        self.scan(table, ALL, &mut |id, bytes| {
            visit(codec::decode::<E>(text(id)?, bytes)?).map(ControlFlow::Continue)
        })
    }

    /// Like [`Read::each`], but damaged records are skipped.
    ///
    /// # Errors
    /// The file cannot be read, or the first error of `visit`.
    pub fn each_readable<E: Entity>(
        &self,
        mut visit: impl FnMut(Record<E>) -> Result<()>,
    ) -> Result<()> {
        let table = Table::Records(self.context.registry.place(E::KIND)?);
        self.scan(table, ALL, &mut |id, bytes| {
            self.unless_damaged(codec::decode::<E>(text(id)?, bytes))?
                .map_or(Ok(()), &mut visit)
                .map(ControlFlow::Continue)
        })
    }

    /// The record, unless it is under a tombstone or damaged.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn find_readable<E: Entity>(&self, id: &Id<E>) -> Result<Option<Record<E>>> {
        self.unless_damaged(self.standing(id.as_str()))
            .map(Option::flatten)
    }

    /// Turns the error of a damaged record into `None` and logs the record once; for work on many
    /// records, which should not fail because of one.
    ///
    /// # Errors
    /// Any other error.
    pub(crate) fn unless_damaged<T>(&self, done: Result<T>) -> Result<Option<T>> {
        match done {
            Err(damage @ Error::Damaged { .. }) => {
                self.context.name(&damage);
                Ok(None)
            }
            done => done.map(Some),
        }
    }

    /// The value of a setting.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn setting(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.bytes(Table::Settings, name.as_bytes())
    }

    pub(crate) fn bytes(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        self.rows.get(table, key, &mut |value| {
            found = Some(value.to_vec());
            Ok(())
        })?;
        Ok(found)
    }

    pub(crate) fn load<E: Entity>(&self, id: &str) -> Result<Option<Record<E>>> {
        self.step()?;
        let table = Table::Records(self.context.registry.place(E::KIND)?);
        let mut found = None;
        self.rows.get(table, id.as_bytes(), &mut |bytes| {
            found = Some(codec::decode(id, bytes)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// The record, unless it is under a tombstone.
    fn standing<E: Entity>(&self, id: &str) -> Result<Option<Record<E>>> {
        let Some(record) = self.load::<E>(id)? else {
            return Ok(None);
        };
        Ok(tombstone::stands(&record, self)?.then_some(record))
    }

    pub(crate) fn exists(&self, kind: Kind, id: &str) -> Result<bool> {
        self.step()?;
        self.rows.get(
            Table::Records(self.context.registry.place(kind)?),
            id.as_bytes(),
            &mut |_| Ok(()),
        )
    }

    /// Whether the record has this value, by the index alone.
    pub(crate) fn holds(&self, kind: Kind, field: &str, value: &str, id: &str) -> Result<bool> {
        let mut key = index::prefix(kind, field, value.as_bytes());
        key.extend_from_slice(id.as_bytes());
        self.rows.get(Table::Index, &key, &mut |_| Ok(()))
    }

    /// Calls `visit` with the ids of a kind's records that have a value, in ascending order.
    pub(crate) fn visit_ids(
        &self,
        kind: Kind,
        field: &str,
        value: &[u8],
        visit: &mut dyn FnMut(&str) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let start = index::prefix(kind, field, value);
        let end = index::after(&start);
        self.scan(
            Table::Index,
            (Bound::Included(&start), Bound::Excluded(&end)),
            &mut |key, _| visit(text(key.get(start.len()..).unwrap_or_default())?),
        )
    }

    /// Calls `visit` with each value of an indexed field, in ascending order.
    pub fn each_value(
        &self,
        kind: Kind,
        field: &str,
        visit: &mut dyn FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        let start = index::code(kind, field);
        let end = index::after(&start);
        self.scan(
            Table::Index,
            (
                Bound::Included(start.as_slice()),
                Bound::Excluded(end.as_slice()),
            ),
            &mut |key, row| {
                index::value(key, row)
                    .map_or(Ok(()), |(value, _)| visit(text(&value)?))
                    .map(ControlFlow::Continue)
            },
        )
    }

    pub(crate) fn scan(&self, table: Table, keys: Keys<'_>, visit: Visit<'_>) -> Result<()> {
        self.rows.scan(table, keys, &mut |key, value| {
            self.step()?;
            visit(key, value)
        })
    }

    /// [`Read::scan`] from the last key to the first.
    pub(crate) fn scan_back(&self, table: Table, keys: Keys<'_>, visit: Visit<'_>) -> Result<()> {
        self.rows.scan_back(table, keys, &mut |key, value| {
            self.step()?;
            visit(key, value)
        })
    }

    /// Called before a scan of every record of a kind.
    pub(crate) fn before_all<E: Entity>(&self) -> Result<()> {
        let Some(permit) = self.permit else {
            return Ok(());
        };
        permit.before(
            self.rows
                .len(Table::Records(self.context.registry.place(E::KIND)?))?,
        )
    }

    /// Called before work that costs as much as reading this many records. The work is limited like
    /// a scan.
    ///
    /// # Errors
    /// [`Error::Busy`] if too many wait; [`Error::Internal`] if the caller is gone.
    pub fn before(&self, records: u64) -> Result<()> {
        self.permit.map_or(Ok(()), |permit| permit.before(records))
    }

    /// Called before work that takes long although it reads few rows.
    /// [`Reader::ask`](crate::Reader::ask) continues on another thread.
    ///
    /// # Errors
    /// The work would delay the thread of its caller.
    pub fn leave(&self) -> Result<()> {
        self.permit.map_or(Ok(()), ScanPermit::leave)
    }

    pub(crate) fn step(&self) -> Result<()> {
        self.permit.map_or(Ok(()), ScanPermit::step)
    }
}

impl Lookup for Read<'_> {
    fn record(&self, kind: Kind, id: &str) -> Result<Option<AnyRecord>> {
        self.step()?;
        let place = self.context.registry.place(kind)?;
        let decode = self.context.registry.entry(place)?.decode;
        let found = RefCell::new(None);
        self.rows
            .get(Table::Records(place), id.as_bytes(), &mut |bytes| {
                *found.borrow_mut() = Some(decode(id, bytes)?);
                Ok(())
            })?;
        Ok(found.into_inner())
    }

    fn ids(&self, kind: Kind, field: &'static str, value: &str) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        self.visit_ids(kind, field, value.as_bytes(), &mut |id| {
            ids.push(id.to_owned());
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(ids)
    }

    fn any(&self, kind: Kind, field: &'static str, value: &str) -> Result<bool> {
        let mut any = false;
        self.visit_ids(kind, field, value.as_bytes(), &mut |_| {
            any = true;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(any)
    }

    fn ended_before(&self, kind: Kind, field: &'static str, value: &str) -> Result<Epoch> {
        self.tombstone_epoch(&index::prefix(kind, field, value.as_bytes()))
    }

    fn any_tombstone(&self) -> Result<bool> {
        Ok(self.rows.len(Table::Endings)? > 0)
    }

    fn router_info(&self, router: &str) -> Option<RouterInfo> {
        self.context.online.router(router)
    }

    fn is_connected(&self, identity: &str) -> bool {
        self.context.online.identity(identity)
    }

    fn dynamic_cost(&self, terminator: &str) -> u16 {
        self.context.online.dynamic_cost(terminator)
    }

    fn now(&self) -> Timestamp {
        self.now
    }
}

pub(crate) fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes)
        .map_err(|_| Error::Storage("a key is not text: the file is damaged".into()))
}

/// Continues if `on`, otherwise stops.
pub(crate) fn flow(on: bool) -> ControlFlow<()> {
    if on {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}
