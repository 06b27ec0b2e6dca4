//! The tables that an integrity check covers.

use crate::tx::{read::Read, tables::Table};
use model::{entity::HistoryClass, error::Result};

/// The tables that are checked, in this order.
pub(super) fn tables(read: &Read<'_>) -> impl Iterator<Item = Table> {
    let records = (0..read.context.registry.entries().len()).map(Table::Records);
    records
        .chain([Table::Index])
        .chain(HistoryClass::ALL.map(Table::History))
}

/// The number of rows to check.
pub(super) fn total(read: &Read<'_>) -> Result<u64> {
    tables(read).map(|table| read.rows.len(table)).sum()
}
