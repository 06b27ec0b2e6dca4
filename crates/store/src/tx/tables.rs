//! Rows of bytes in named tables, read or written, over redb. Transactions, lists, history and
//! integrity checks use rows and never redb itself. Besides this file, redb is used by the files in
//! `file/` and by `opening.rs`, `store_core.rs` and `tx/writer.rs`, which open, copy and commit.
//!
//! All jobs of a group share one redb transaction, so that the group costs one commit and no reader
//! sees a part of it. A job that fails is rolled back row by row from the log of [`Writing`]. If
//! redb fails in the middle of a change, its tree may be inconsistent: then the whole transaction
//! must be aborted, and [`Writing::is_incomplete`] says so.

use std::{
    cell::{Cell, OnceCell, RefCell},
    ops::{Bound, ControlFlow},
};

use redb::{
    AccessGuard, ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata,
    StorageError, Table as RedbTable, TableDefinition, WriteTransaction,
};

use model::{
    entity::HistoryClass,
    error::{Error, Result},
};

type Bytes = &'static [u8];
/// A range of keys.
pub(crate) type Keys<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);
/// The range of all keys.
pub(crate) const ALL: Keys<'static> = (Bound::Unbounded, Bound::Unbounded);
/// Called with one row. The result says whether to continue.
pub(crate) type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>>;

/// Called with one row.
pub(crate) type RowCallback<'s> = &'s mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// A table of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Table {
    /// About the file itself: its format, the manifest of a snapshot, the anchors of the history.
    Meta,
    /// Settings of the modules above, by name.
    Settings,
    Index,
    /// The rows of the history of a class, by sequence.
    History(HistoryClass),
    /// Tombstones whose records are not all deleted yet, by the prefix of their index keys.
    Endings,
    /// The records of the kind at this place in the registry, by id.
    Records(usize),
}

impl Table {
    /// All tables of a store with this many kinds.
    pub(crate) fn all(kinds: usize) -> impl Iterator<Item = Self> {
        let others = [Self::Meta, Self::Settings, Self::Index, Self::Endings];
        // The order is that of the slots.
        others
            .into_iter()
            .chain(HistoryClass::ALL.map(Self::History))
            .chain((0..kinds).map(Self::Records))
    }

    fn slot(self) -> usize {
        match self {
            Self::Meta => 0,
            Self::Settings => 1,
            Self::Index => 2,
            Self::Endings => 3,
            Self::History(HistoryClass::Changes) => 4,
            Self::History(HistoryClass::Sessions) => 5,
            Self::Records(place) => 6 + place,
        }
    }
}

/// Tables that can be read.
pub(crate) trait Rows {
    /// Passes the value of a key to `see`. Returns whether there is one.
    fn get(
        &self,
        table: Table,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool>;
    /// Visits rows in the order of their keys. Rows that the visitor writes meanwhile may or may
    /// not be visited.
    fn scan(&self, table: Table, keys: Keys<'_>, visit: Visit<'_>) -> Result<()>;
    /// [`Rows::scan`] from the last key to the first.
    fn scan_back(&self, table: Table, keys: Keys<'_>, visit: Visit<'_>) -> Result<()>;
    /// Passes the row with the last key to `see`. Returns whether there is one.
    fn last(&self, table: Table, see: RowCallback<'_>) -> Result<bool>;
    fn len(&self, table: Table) -> Result<u64>;
}

/// Tables that can be written.
pub(crate) trait RowsMut: Rows {
    fn insert(&self, table: Table, key: &[u8], value: &[u8]) -> Result<()>;
    fn remove(&self, table: Table, key: &[u8]) -> Result<()>;
    /// The position in the undo log.
    fn mark(&self) -> usize;
    /// Undoes everything written since a position.
    fn rollback(&self, mark: usize) -> Result<()>;
}

/// The names of all tables, by slot.
pub(crate) type TableNames = [String];

/// Converts an error of redb.
pub(crate) fn broken(error: impl Into<redb::Error>) -> Error {
    Error::Storage(error.into().to_string())
}

fn definition(names: &TableNames, table: Table) -> Result<TableDefinition<'_, Bytes, Bytes>> {
    let name = names
        .get(table.slot())
        .ok_or_else(|| Error::Internal("no such table".into()))?;
    Ok(TableDefinition::new(name))
}

/// Each table, opened on first use: opening costs half as much as a point read.
struct LazyTables<T>(Vec<OnceCell<Box<T>>>);

impl<T> LazyTables<T> {
    fn new(names: &TableNames) -> Self {
        Self(names.iter().map(|_| OnceCell::new()).collect())
    }

    fn get(&self, table: Table, open: impl FnOnce() -> Result<T>) -> Result<&T> {
        let cell = self
            .0
            .get(table.slot())
            .ok_or_else(|| Error::Internal("no such table".into()))?;
        match cell.get() {
            Some(open) => Ok(open),
            None => {
                let opened = open()?;
                Ok(cell.get_or_init(|| Box::new(opened)))
            }
        }
    }
}

/// The tables at one moment.
pub(crate) struct Reading<'n> {
    transaction: ReadTransaction,
    names: &'n TableNames,
    opened: LazyTables<ReadOnlyTable<Bytes, Bytes>>,
}

impl<'n> Reading<'n> {
    pub(crate) fn new(transaction: ReadTransaction, names: &'n TableNames) -> Self {
        Self {
            transaction,
            names,
            opened: LazyTables::new(names),
        }
    }

    fn table(&self, table: Table) -> Result<&ReadOnlyTable<Bytes, Bytes>> {
        self.opened.get(table, || {
            self.transaction
                .open_table(definition(self.names, table)?)
                .map_err(broken)
        })
    }
}

impl Rows for Reading<'_> {
    fn get(
        &self,
        table: Table,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let Some(value) = self.table(table)?.get(key).map_err(broken)? else {
            return Ok(false);
        };
        see(value.value()).map(|()| true)
    }

    fn scan(&self, table: Table, keys: Keys<'_>, visit: Visit<'_>) -> Result<()> {
        show(
            self.table(table)?.range::<&[u8]>(keys).map_err(broken)?,
            visit,
        )
    }

    fn scan_back(&self, table: Table, keys: Keys<'_>, visit: Visit<'_>) -> Result<()> {
        show(
            self.table(table)?
                .range::<&[u8]>(keys)
                .map_err(broken)?
                .rev(),
            visit,
        )
    }

    fn last(&self, table: Table, see: RowCallback<'_>) -> Result<bool> {
        let Some((key, value)) = self.table(table)?.last().map_err(broken)? else {
            return Ok(false);
        };
        see(key.value(), value.value()).map(|()| true)
    }

    fn len(&self, table: Table) -> Result<u64> {
        self.table(table)?.len().map_err(broken)
    }
}

/// A long scan yields the processor after this many rows.
const ROWS_BEFORE_YIELD: usize = 256;

type Row<'r> = (AccessGuard<'r, Bytes>, AccessGuard<'r, Bytes>);

fn show<'r>(
    rows: impl Iterator<Item = std::result::Result<Row<'r>, StorageError>>,
    visit: Visit<'_>,
) -> Result<()> {
    for (n, row) in rows.enumerate() {
        let (key, value) = row.map_err(broken)?;
        if visit(key.value(), value.value())?.is_break() {
            break;
        }
        if n % ROWS_BEFORE_YIELD == ROWS_BEFORE_YIELD - 1 {
            std::thread::yield_now();
        }
    }
    Ok(())
}

type Writable<'t> = RefCell<RedbTable<'t, Bytes, Bytes>>;

/// The tables in the one write transaction.
pub(crate) struct Writing<'t> {
    transaction: &'t WriteTransaction,
    names: &'t TableNames,
    opened: LazyTables<Writable<'t>>,
    log: RefCell<Vec<Undo>>,
    incomplete: Cell<bool>,
}

struct Undo {
    table: Table,
    key: Vec<u8>,
    before: Option<Vec<u8>>,
}

impl<'t> Writing<'t> {
    pub(crate) fn new(transaction: &'t WriteTransaction, names: &'t TableNames) -> Self {
        Self {
            transaction,
            names,
            opened: LazyTables::new(names),
            log: RefCell::default(),
            incomplete: Cell::new(false),
        }
    }

    /// Whether a change failed in the middle, so that the whole transaction must be aborted.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.incomplete.get()
    }

    /// Clears the undo log, so that what was written stays in the transaction. Returns whether
    /// anything was written.
    pub(crate) fn keep(&self) -> bool {
        let written = self.mark() > 0;
        self.log.borrow_mut().clear();
        written
    }

    fn table(&self, table: Table) -> Result<&Writable<'t>> {
        self.opened.get(table, || {
            self.transaction
                .open_table(definition(self.names, table)?)
                .map(RefCell::new)
                .map_err(broken)
        })
    }

    /// Sets or removes a row and returns its previous value. The transaction counts as incomplete
    /// until the change has succeeded, so that a panic of redb leaves it incomplete; once
    /// incomplete, it stays so.
    fn change(&self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let mut open = self.table(table)?.borrow_mut();
        let incomplete = self.incomplete.replace(true);
        let before = match value {
            Some(value) => open.insert(key, value),
            None => open.remove(key),
        };
        let before = before
            .map_err(broken)?
            .map(|before| before.value().to_vec());
        self.incomplete.set(incomplete);
        Ok(before)
    }

    fn change_undoably(&self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let before = self.change(table, key, value)?;
        self.log.borrow_mut().push(Undo {
            table,
            key: key.to_vec(),
            before,
        });
        Ok(())
    }

    /// Copies some rows, so that the table is not borrowed while they are visited.
    fn some(&self, table: Table, keys: Keys<'_>, count: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let open = self.table(table)?.borrow();
        let rows = open.range::<&[u8]>(keys).map_err(broken)?.take(count);
        rows.map(|row| {
            row.map(|(key, value)| (key.value().to_vec(), value.value().to_vec()))
                .map_err(broken)
        })
        .collect()
    }
}

impl Rows for Writing<'_> {
    fn get(
        &self,
        table: Table,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let found = {
            let open = self.table(table)?.borrow();
            open.get(key)
                .map_err(broken)?
                .map(|value| value.value().to_vec())
        };
        found.map_or(Ok(false), |value| see(&value).map(|()| true))
    }

    fn scan(&self, table: Table, keys: Keys<'_>, visit: Visit<'_>) -> Result<()> {
        // The first step is small: most scans of a job only test whether there is a row at all.
        let mut count = 2;
        let mut rows = self.some(table, keys, count)?;
        loop {
            for (key, value) in &rows {
                if visit(key, value)?.is_break() {
                    return Ok(());
                }
            }
            let Some((last, _)) = rows.last().filter(|_| rows.len() == count) else {
                return Ok(());
            };
            count = (count * 4).min(512);
            rows = self.some(table, (Bound::Excluded(last), keys.1), count)?;
        }
    }

    /// Copies the whole range: jobs scan only short ranges backwards.
    fn scan_back(&self, table: Table, keys: Keys<'_>, visit: Visit<'_>) -> Result<()> {
        for (key, value) in self.some(table, keys, usize::MAX)?.iter().rev() {
            if visit(key, value)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn last(&self, table: Table, see: RowCallback<'_>) -> Result<bool> {
        let open = self.table(table)?.borrow();
        let Some((key, value)) = open.last().map_err(broken)? else {
            return Ok(false);
        };
        see(key.value(), value.value()).map(|()| true)
    }

    fn len(&self, table: Table) -> Result<u64> {
        self.table(table)?.borrow().len().map_err(broken)
    }
}

impl RowsMut for Writing<'_> {
    fn insert(&self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.change_undoably(table, key, Some(value))
    }

    fn remove(&self, table: Table, key: &[u8]) -> Result<()> {
        self.change_undoably(table, key, None)
    }

    fn mark(&self) -> usize {
        self.log.borrow().len()
    }

    fn rollback(&self, mark: usize) -> Result<()> {
        loop {
            let last = if self.mark() > mark {
                self.log.borrow_mut().pop()
            } else {
                None
            };
            let Some(Undo { table, key, before }) = last else {
                return Ok(());
            };
            self.change(table, &key, before.as_deref())?;
        }
    }
}
