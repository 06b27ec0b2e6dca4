//! The manifest of a snapshot, stored in the snapshot itself, which detects damage to any part of
//! it.
//!
//! Invariant: only a file that was not written to since it was made has a manifest; opening a file
//! for writing removes it, and counts the restore (`restoration.rs`). The manifest proves that
//! nothing was damaged, not who made the file.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableHandle,
};
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use super::{
    open::META,
    restoration::{self, SAME},
};
use crate::{progress::Progress, tx::tables::broken};
use model::{
    clock::Timestamp,
    error::{Error, Result},
};

const KEY: &[u8] = b"manifest";
const RECORDS: &str = "records.";

/// The description of a snapshot's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The file format, see `file/open.rs`.
    pub format: u32,
    /// The Overkeep version that made it.
    pub release: String,
    pub made_at: Timestamp,
    /// The number of rows of each table that is not empty.
    pub rows: BTreeMap<String, u64>,
    /// SHA-256 over all rows and the other fields of the manifest, in hex.
    pub hash: String,
}

impl Manifest {
    /// The manifest of a file with these rows, made now.
    pub(crate) fn of(rows: Sum, format: u32, now: Timestamp) -> Result<Self> {
        Self::over(rows, format, env!("CARGO_PKG_VERSION").into(), now)
    }

    /// Checks these rows against the manifest. Returns the same manifest if they match.
    pub(crate) fn confirm(&self, rows: Sum) -> Result<Self> {
        let found = Self::over(rows, self.format, self.release.clone(), self.made_at)?;
        if found == *self {
            Ok(found)
        } else {
            Err(Error::Storage(
                "the content does not match the manifest".into(),
            ))
        }
    }

    fn over(sum: Sum, format: u32, release: String, made_at: Timestamp) -> Result<Self> {
        let Sum { mut hash, rows } = sum;
        let mut manifest = Self {
            format,
            release,
            made_at,
            rows,
            hash: String::new(),
        };
        hash.update(&manifest.text()?);
        manifest.hash = HEXLOWER.encode(hash.finish().as_ref());
        Ok(manifest)
    }

    /// The number of records of each kind.
    pub fn records(&self) -> impl Iterator<Item = (&str, u64)> {
        self.rows
            .iter()
            .filter_map(|(table, count)| Some((table.strip_prefix(RECORDS)?, *count)))
    }

    fn text(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::Internal(format!("a manifest: {e}")))
    }

    /// Writes the manifest into a file whose other content is complete; with a mark if the file
    /// takes the place of one with the same content.
    pub(crate) fn store(&self, database: &Database, is_same: bool) -> Result<()> {
        let text = self.text()?;
        let write = || -> Result<(), redb::Error> {
            let transaction = database.begin_write()?;
            transaction.open_table(META)?.insert(KEY, text.as_slice())?;
            if is_same {
                transaction.open_table(META)?.insert(SAME, [].as_slice())?;
            }
            Ok(transaction.commit()?)
        };
        write().map_err(broken)
    }

    /// The manifest of a file; `None` if it has none.
    pub(crate) fn load(from: &ReadTransaction) -> Result<Option<Self>> {
        let meta = from.open_table(META).map_err(broken)?;
        let Some(text) = meta.get(KEY).map_err(broken)? else {
            return Ok(None);
        };
        serde_json::from_slice(text.value())
            .map(Some)
            .map_err(|e| Error::Storage(format!("the manifest cannot be read: {e}")))
    }

    /// Removes the manifest from a file that is about to be written to. Such a file was restored,
    /// unless it only took the place of one with the same content.
    pub(crate) fn forget(database: &Database, now: Timestamp) -> Result<(), redb::Error> {
        if database.begin_read()?.open_table(META)?.get(KEY)?.is_none() {
            return Ok(());
        }
        let transaction = database.begin_write()?;
        {
            let mut meta = transaction.open_table(META)?;
            meta.remove(KEY)?;
            if meta.remove(SAME)?.is_none() {
                restoration::count(&mut meta, now)?;
            }
        }
        Ok(transaction.commit()?)
    }
}

/// Whether the next opening of this file for writing is a restore: it is a snapshot that was not
/// put in the place of a data file yet, or only just now.
pub(crate) fn is_unopened_snapshot(of: &ReadTransaction) -> Result<bool> {
    let meta = of.open_table(META).map_err(broken)?;
    let has = |key: &[u8]| meta.get(key).map(|value| value.is_some()).map_err(broken);
    Ok(has(KEY)? && !has(SAME)?)
}

/// The names of the tables that make up the content of a file, in ascending order.
pub(crate) fn tables(of: &ReadTransaction) -> Result<Vec<String>> {
    let mut names: Vec<String> = of
        .list_tables()
        .map_err(broken)?
        .map(|table| table.name().to_owned())
        .collect();
    names.retain(|name| name != META.name());
    names.sort_unstable();
    Ok(names)
}

/// Counts and hashes rows, table by table in the order of their names. An empty table counts like
/// one that is missing.
pub(crate) struct Sum {
    hash: Context,
    rows: BTreeMap<String, u64>,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            hash: Context::new(&SHA256),
            rows: BTreeMap::new(),
        }
    }
}

impl Sum {
    /// Counts and hashes all rows of a file.
    pub(crate) fn of(transaction: &ReadTransaction, watch: &Progress) -> Result<Self> {
        let mut sum = Self::default();
        for name in tables(transaction)? {
            let table = transaction
                .open_table(TableDefinition::<&[u8], &[u8]>::new(&name))
                .map_err(broken)?;
            for row in table.iter().map_err(broken)? {
                let (key, value) = row.map_err(broken)?;
                sum.add(&name, key.value(), value.value());
                watch.step()?;
            }
        }
        Ok(sum)
    }

    /// Adds one row.
    pub(crate) fn add(&mut self, table: &str, key: &[u8], value: &[u8]) {
        match self.rows.get_mut(table) {
            Some(count) => *count += 1,
            None => {
                self.part(table.as_bytes());
                self.rows.insert(table.to_owned(), 1);
            }
        }
        self.part(key);
        self.part(value);
    }

    fn part(&mut self, bytes: &[u8]) {
        self.hash.update(&(bytes.len() as u64).to_le_bytes());
        self.hash.update(bytes);
    }
}
