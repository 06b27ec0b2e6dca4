//! A copy of everything as it is at one moment, in a new and compact file that can be opened like the first. Writers never wait for it.
//!
//! Invariant: under the name that was asked for there is never anything but a whole and checked copy.

use std::{
    fs::File,
    io,
    ops::{Bound, ControlFlow},
    path::Path,
};

use redb::{Database, ReadableDatabase};

use super::{
    Read, Store, open,
    tables::{Keys, Names, Reading, Rows, RowsMut, Table, Writing},
};
use crate::error::{Error, Result};

/// Bytes of the new file kept in memory.
const CACHE: usize = 16 << 20;
/// Bytes of rows written in one transaction.
const BATCH: usize = 8 << 20;
const ALL: Keys<'static> = (Bound::Unbounded, Bound::Unbounded);

type Row = (Vec<u8>, Vec<u8>);

impl Store {
    /// Copies everything to a file, readable for its owner alone, in place of one of that name. Blocks for as long as that takes;
    /// the copy is of the moment it began.
    ///
    /// # Errors
    /// The copy cannot be written or is not the same as what was read; then the file of that name is as it was before.
    pub fn snapshot(&self, to: &Path) -> Result<()> {
        let unfinished = open::beside(to, ".unfinished");
        let core = &self.0.core;
        let tables: Vec<Table> = Table::all(core.registry.entries()).collect();
        let made = core.read(None, |read| {
            remove(&unfinished).map_err(failed)?;
            let copied = copy(read, &unfinished, &core.names, &tables)?;
            let found = reopened(&unfinished, &core.names, &tables)?;
            if copied == found { Ok(()) } else { Err(failed("the copy is not the same as what was read")) }
        });
        let placed = made.and_then(|()| place(&unfinished, to).map_err(failed));
        if placed.is_err() {
            drop(remove(&unfinished));
        }
        placed
    }
}

fn failed(reason: impl ToString) -> Error {
    Error::Storage(format!("a snapshot: {}", reason.to_string()))
}

fn remove(file: &Path) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// How many rows each table has, and a sum over them.
#[derive(Default, PartialEq)]
struct Content(Vec<(u64, u32)>);

/// Counts and sums the rows of one table.
#[derive(Default)]
struct Sum {
    rows: u64,
    crc: crc32fast::Hasher,
}

impl Sum {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.rows += 1;
        for part in [key, value] {
            self.crc.update(&part.len().to_le_bytes());
            self.crc.update(part);
        }
    }

    fn end(self) -> (u64, u32) {
        (self.rows, self.crc.finalize())
    }
}

fn copy(read: &Read<'_>, file: &Path, names: &Names, tables: &[Table]) -> Result<Content> {
    let mut database = open::file(file, CACHE, names).map_err(failed)?;
    let mut content = Content::default();
    for table in tables {
        let (mut sum, mut batch, mut size) = (Sum::default(), Vec::new(), 0);
        read.scan(*table, ALL, &mut |key, value| {
            sum.add(key, value);
            size += key.len() + value.len();
            batch.push((key.to_vec(), value.to_vec()));
            if size >= BATCH {
                write(&database, names, *table, std::mem::take(&mut batch))?;
                size = 0;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        write(&database, names, *table, batch)?;
        content.0.push(sum.end());
    }
    database.compact().map_err(failed)?;
    Ok(content)
}

fn write(database: &Database, names: &Names, table: Table, batch: Vec<Row>) -> Result<()> {
    let transaction = database.begin_write().map_err(failed)?;
    let rows = Writing::new(&transaction, names);
    for (key, value) in batch {
        rows.insert(table, &key, &value)?;
        rows.keep();
    }
    drop(rows);
    transaction.commit().map_err(failed)
}

/// What is in the file, opened as a start would.
fn reopened(file: &Path, names: &Names, tables: &[Table]) -> Result<Content> {
    let mut database = open::file(file, CACHE, names).map_err(failed)?;
    if !database.check_integrity().map_err(failed)? {
        return Err(failed("the copy is damaged"));
    }
    let rows = Reading::new(database.begin_read().map_err(failed)?, names);
    let mut content = Content::default();
    for table in tables {
        let mut sum = Sum::default();
        rows.scan(*table, ALL, &mut |key, value| {
            sum.add(key, value);
            Ok(ControlFlow::Continue(()))
        })?;
        content.0.push(sum.end());
    }
    Ok(content)
}

/// Gives the finished file its name, so that a crash leaves either the one before or this one.
fn place(unfinished: &Path, to: &Path) -> io::Result<()> {
    File::open(unfinished)?.sync_all()?;
    std::fs::rename(unfinished, to)?;
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
