//! What an integrity check goes over.

use crate::{
    error::Result,
    store::tx::{read::Read, tables::Table},
};

/// The tables whose rows are looked at, in this order.
pub(super) fn tables(read: &Read<'_>) -> impl Iterator<Item = Table> {
    (0..read.context.registry.entries().len()).map(Table::Records).chain([Table::Index, Table::History])
}

/// How many rows there are to look at.
pub(super) fn total(read: &Read<'_>) -> Result<u64> {
    tables(read).map(|table| read.rows.len(table)).sum()
}
