//! How often a data file was restored. What clients have reported since a snapshot was made is not
//! in the file that it becomes, and clients do not know of the restore: what was reported before it
//! does not count.
//!
//! A snapshot has a manifest until it is opened for writing, whoever put it in the place of a data
//! file. So the first such opening is the restore, and counts it in the transaction that removes
//! the manifest. A data file that this program writes anew, with the same content
//! (`Reader::supersede`), has a manifest with a mark beside it, and is not counted. A copy of a
//! data file that was made by other means than a snapshot cannot be told from the file itself.

use redb::{ReadableTable, Table};

use crate::{
    handle::Store,
    tx::{read::Read, tables::Table as StoreTable},
};
use model::{
    clock::Timestamp,
    error::{Error, Result},
};

/// The key of the count in the table about the file itself, with the time of the last restore:
/// `[u64, little endian][milliseconds i64, little endian]`.
pub(super) const RESTORED: &[u8] = b"restored";
/// The key of the mark beside the manifest of a file that was only written anew.
pub(super) const SAME: &[u8] = b"manifest.same";

/// The last restore of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restoration {
    /// The number of restores so far.
    pub number: u64,
    pub at: Timestamp,
}

impl Restoration {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (number, at) = bytes.split_first_chunk()?;
        Some(Self {
            number: u64::from_le_bytes(*number),
            at: Timestamp::from_millis(i64::from_le_bytes(at.try_into().ok()?)),
        })
    }

    /// The next restore after the one that is stored. Of a count that cannot be read, none of the
    /// earlier reports may count: no file is restored so often.
    fn next(stored: Option<&[u8]>, at: Timestamp) -> Vec<u8> {
        let last = stored.map_or(0, |bytes| {
            Self::from_bytes(bytes).map_or(u64::MAX >> 1, |last| last.number)
        });
        [
            last.wrapping_add(1).to_le_bytes(),
            at.millis().to_le_bytes(),
        ]
        .concat()
    }
}

/// Counts a restore.
pub(super) fn count(
    meta: &mut Table<'_, &'static [u8], &'static [u8]>,
    at: Timestamp,
) -> std::result::Result<(), redb::Error> {
    let next = Restoration::next(
        meta.get(RESTORED)?.as_ref().map(redb::AccessGuard::value),
        at,
    );
    meta.insert(RESTORED, next.as_slice())?;
    Ok(())
}

impl Read<'_> {
    /// The last restore of the file; `None` if there was none.
    ///
    /// # Errors
    /// The file cannot be read, or the row is damaged.
    pub fn restoration(&self) -> Result<Option<Restoration>> {
        let Some(bytes) = self.bytes(StoreTable::Meta, RESTORED)? else {
            return Ok(None);
        };
        let damaged = || Error::Damaged {
            kind: "data file",
            id: "restored".into(),
            reason: "it cannot be read".into(),
        };
        Restoration::from_bytes(&bytes)
            .map(Some)
            .ok_or_else(damaged)
    }
}

impl Store {
    /// Counts a file that was filled from another one as restored. Blocks.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn count_as_restored(&self) -> Result<()> {
        self.write_blocking(|tx| {
            let next = Restoration::next(
                tx.read().bytes(StoreTable::Meta, RESTORED)?.as_deref(),
                tx.read.now,
            );
            tx.rows.insert(StoreTable::Meta, RESTORED, &next)
        })
    }
}
