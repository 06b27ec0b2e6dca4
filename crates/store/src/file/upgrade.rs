//! Converts a file of an earlier format in one transaction.
//!
//! Up to format 2, the keys of the index and of tombstones began with the names of kind and field,
//! each with its length in front. Since format 3 they begin with a code (`index.rs`), and rows of
//! the history are packed (`history/packing.rs`). Format 2 added sealed settings to format 1; the
//! two need no different conversion. Index rows of fields that are no longer indexed are dropped in
//! this step, and with every conversion those of fields that were not indexed before are made from
//! the records.
//!
//! Format 4 has two classes of history rows, each in a table with a chain (`history/log.rs`), and
//! posture data. The rows of earlier formats stay as they are: their one chain becomes that of the
//! changes, and hashes that were noted stay valid.

use redb::{ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

use super::open::{self, FORMAT, META, NEWEST};
use crate::{
    index,
    opening::OpenStore,
    reader::Reader,
    registry::{KindRegistry, table_name},
    tx::tables::{Table, broken},
};
use model::{entity::Kind, error::Result};

type Definition<'n> = TableDefinition<'n, &'static [u8], &'static [u8]>;
/// A kind, and a field of it that is indexed.
type IndexedField = (Kind, &'static str);
/// The first format whose keys of the index begin with a code.
const FIRST_WITH_CODES: u32 = 3;
/// The temporary name of a table of the earlier format.
const BEFORE: Definition<'static> = Definition::new("before");

impl Reader {
    /// Whether the file has the format that this release writes.
    ///
    /// # Errors
    /// [`Error::Storage`](model::error::Error::Storage) if it cannot be read.
    pub fn is_current(&self) -> Result<bool> {
        Ok(self.format()? == Some(NEWEST))
    }

    fn format(&self) -> Result<Option<u32>> {
        let from = self.core().database()?.begin_read().map_err(broken)?;
        open::format(&from).map_err(broken)
    }
}

impl OpenStore {
    /// Converts a file of an earlier format to the format that this release writes, and stores the
    /// value of `setting` under its name, in one transaction. Before the conversion, the index of
    /// such a file cannot be used. A large file takes many seconds. Blocks.
    ///
    /// # Errors
    /// The file cannot be read or written; then it is unchanged.
    pub fn upgrade(&self, setting: Option<(&str, &[u8])>) -> Result<()> {
        let (core, format) = (self.core(), self.format()?);
        let is_current = format == Some(NEWEST);
        if is_current && setting.is_none() {
            return Ok(());
        }
        if !is_current {
            tracing::info!(file = %core.path.display(), format = NEWEST, "converting the file to the format of this release");
        }
        let database = core.database()?;
        let work = || -> Result<(), redb::Error> {
            let transaction = database.begin_write()?;
            if !is_current {
                convert(
                    &transaction,
                    &core.context.registry,
                    format.is_some_and(|format| format >= FIRST_WITH_CODES),
                )?;
            }
            if let Some((name, value)) = setting {
                transaction
                    .open_table(Definition::new(&table_name(
                        Table::Settings,
                        core.context.registry.entries(),
                    )))?
                    .insert(name.as_bytes(), value)?;
            }
            Ok(transaction.commit()?)
        };
        work().map_err(broken)
    }
}

fn convert(
    transaction: &WriteTransaction,
    registry: &KindRegistry,
    has_codes: bool,
) -> Result<(), redb::Error> {
    let without_rows = if has_codes {
        fields_without_rows(transaction, registry)?
    } else {
        change_keys(transaction, registry)?
    };
    for (kind, field) in without_rows {
        add(transaction, registry, kind, field)?;
    }
    transaction
        .open_table(META)?
        .insert(FORMAT, NEWEST.to_le_bytes().as_slice())?;
    Ok(())
}

/// The fields of which the index has no row.
fn fields_without_rows(
    transaction: &WriteTransaction,
    registry: &KindRegistry,
) -> Result<Vec<IndexedField>, redb::Error> {
    let index = transaction.open_table(Definition::new(&table_name(
        Table::Index,
        registry.entries(),
    )))?;
    let mut without_rows = Vec::new();
    for (code, kind, field) in registry.fields() {
        let end = index::after(&code);
        let any = index
            .range(code.as_slice()..end.as_slice())?
            .next()
            .transpose()?
            .is_some();
        without_rows.extend((!any).then_some((kind, field)));
    }
    Ok(without_rows)
}

/// Gives the keys of the index and of tombstones their codes. Returns the fields of which the index
/// has no row.
fn change_keys(
    transaction: &WriteTransaction,
    registry: &KindRegistry,
) -> Result<Vec<IndexedField>, redb::Error> {
    let mut without_rows = Vec::new();
    for table in [Table::Index, Table::Endings] {
        let name = table_name(table, registry.entries());
        transaction.rename_table(Definition::new(&name), BEFORE)?;
        {
            let (before, mut now) = (
                transaction.open_table(BEFORE)?,
                transaction.open_table(Definition::new(&name))?,
            );
            // Fields are converted in the order of the new keys, so that pages are filled.
            for (code, kind, field) in registry.fields() {
                let names = names(kind, field);
                let end = index::after(&names);
                let mut any = false;
                for row in before.range(names.as_slice()..end.as_slice())? {
                    let (key, row) = row?;
                    let value = key
                        .value()
                        .strip_prefix(names.as_slice())
                        .unwrap_or_default();
                    now.insert([code.as_slice(), value].concat().as_slice(), row.value())?;
                    any = true;
                }
                without_rows.extend((table == Table::Index && !any).then_some((kind, field)));
            }
        }
        transaction.delete_table(BEFORE)?;
    }
    Ok(without_rows)
}

/// Makes the index rows of a field that has none from all records of its kind. A damaged record
/// gets none; a check reports it.
fn add(
    transaction: &WriteTransaction,
    registry: &KindRegistry,
    kind: Kind,
    field: &str,
) -> Result<(), redb::Error> {
    let Some(place) = registry
        .entries()
        .iter()
        .position(|entry| entry.kind == kind)
    else {
        return Ok(());
    };
    let [records, index] =
        [Table::Records(place), Table::Index].map(|table| table_name(table, registry.entries()));
    let (records, mut index) = (
        transaction.open_table(Definition::new(&records))?,
        transaction.open_table(Definition::new(&index))?,
    );
    for row in records.iter()? {
        let (id, bytes) = row?;
        let parts = std::str::from_utf8(id.value())
            .ok()
            .zip(registry.entries().get(place));
        let parts = parts.and_then(|(id, entry)| (entry.parts)(id, bytes.value()).ok());
        for entry in parts
            .iter()
            .flat_map(|parts| &parts.entries)
            .filter(|entry| entry.field == field)
        {
            index.insert(entry.key.as_slice(), entry.row.as_slice())?;
        }
    }
    Ok(())
}

/// The prefix of a field's keys up to format 2.
fn names(kind: Kind, field: &str) -> Vec<u8> {
    [kind.name, field]
        .into_iter()
        .flat_map(|name| [&name.len().to_le_bytes()[..1], name.as_bytes()].concat())
        .collect()
}
