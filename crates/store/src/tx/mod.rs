//! Transactions: reading, writing, the one writer thread, deletions, tombstones, dry runs.

pub(crate) mod clearing;
pub(crate) mod delete;
pub(crate) mod dry_run;
pub(crate) mod edit;
pub(crate) mod read;
pub(crate) mod tables;
pub(crate) mod tombstone;
pub(crate) mod write;
pub(crate) mod writer;
