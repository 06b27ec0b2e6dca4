//! The chain of one class of rows: how a row is stored, and the hash that chains it to the row
//! before.
//!
//! Each class has a chain of its own, so that its oldest rows can be dropped without the other's.
//! The sequence is common to both. A row also holds a link to the last row of the other class, and
//! its hash covers the link: whoever removes the last rows of one chain has to compute the later
//! hashes of the other one again.
//!
//! Key: the sequence, eight bytes, big endian. Row: `[hash 32][total u64, little
//! endian][2][link][JSON, packed]` (`history/packing.rs`), with the link `[sequence u64, little
//! endian][first 16 bytes of the hash]`, all zero while the other class has no row. The hash is
//! SHA-256 over the byte 2, the hash of the row before in the class, the link, the key, the total
//! and the JSON. The total counts the bytes of all rows of the class ever written, so that the size
//! of the stored rows is a subtraction. Rows of format 3 and earlier have neither the byte nor the
//! link, in the row and in the hash. All of them belong to the class of changes, whatever they say,
//! because they form one chain.

use std::borrow::Cow;

use data_encoding::HEXLOWER;
use ring::digest::{Context, SHA256};

use super::packing::{pack, unpack};
use model::error::Result;

const HASH: usize = 32;
/// The length of hash and total in bytes.
const HEAD: usize = HASH + 8;
/// The byte before a link.
const LINKED: u8 = 2;
/// The length of a link, and of the part of a hash in it.
const LINK: usize = 8 + LINKED_HASH;
const LINKED_HASH: usize = 16;

/// A row of the other class: its sequence, and the first bytes of its hash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChainLink {
    pub(crate) sequence: u64,
    hash: [u8; LINKED_HASH],
}

impl ChainLink {
    fn to_bytes(self) -> [u8; LINK] {
        let mut bytes = [0; LINK];
        let (sequence, hash) = bytes.split_at_mut(8);
        sequence.copy_from_slice(&self.sequence.to_le_bytes());
        hash.copy_from_slice(&self.hash);
        bytes
    }

    fn from_bytes(bytes: &[u8; LINK]) -> Option<Self> {
        let (sequence, hash) = bytes.split_first_chunk()?;
        Some(Self {
            sequence: u64::from_le_bytes(*sequence),
            hash: hash.try_into().ok()?,
        })
    }
}

/// The parts of a stored row.
struct StoredRow<'r> {
    hash: &'r [u8; HASH],
    total: u64,
    /// `None` in rows of earlier formats.
    link: Option<ChainLink>,
    packed: &'r [u8],
}

impl<'r> StoredRow<'r> {
    fn of(row: &'r [u8]) -> Option<Self> {
        let (hash, rest) = row.split_first_chunk()?;
        let (total, rest) = rest.split_first_chunk()?;
        let linked = rest
            .strip_prefix(&[LINKED])
            .map(|rest| rest.split_first_chunk());
        let (link, packed) = match linked {
            Some(linked) => {
                let (link, packed) = linked?;
                (Some(ChainLink::from_bytes(link)?), packed)
            }
            None => (None, rest),
        };
        Some(Self {
            hash,
            total: u64::from_le_bytes(*total),
            link,
            packed,
        })
    }
}

/// The JSON of a row; `None` if it is damaged.
pub(crate) fn text(row: &[u8]) -> Option<Cow<'_, [u8]>> {
    unpack(StoredRow::of(row)?.packed)
}

/// The chain's position after a row: the last row, or the anchor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChainPosition {
    pub(crate) sequence: u64,
    hash: [u8; HASH],
    pub(super) total: u64,
}

impl ChainPosition {
    /// The position after this row; `None` if it cannot be read.
    pub(crate) fn of(key: &[u8], row: &[u8]) -> Option<Self> {
        let StoredRow { hash, total, .. } = StoredRow::of(row)?;
        Some(Self {
            sequence: u64::from_be_bytes(key.try_into().ok()?),
            hash: *hash,
            total,
        })
    }

    /// The row for this text with this sequence after this position. `other` is the end of the
    /// other class.
    ///
    /// # Errors
    /// The text is too long.
    pub(super) fn next(&self, sequence: u64, other: &Self, text: &[u8]) -> Result<Vec<u8>> {
        let packed = pack(text)?;
        let total = self
            .total
            .wrapping_add((8 + HEAD + 1 + LINK + packed.len()) as u64);
        let link = other.as_link();
        let hash = self.sum(sequence, total, Some(link), text);
        Ok([
            hash.as_slice(),
            &total.to_le_bytes(),
            &[LINKED],
            &link.to_bytes(),
            &packed,
        ]
        .concat())
    }

    /// Whether a row has the hash of a row that follows this position.
    pub(super) fn precedes(&self, key: &[u8], row: &[u8]) -> bool {
        let Some((stored, next)) = StoredRow::of(row).zip(Self::of(key, row)) else {
            return false;
        };
        unpack(stored.packed).is_some_and(|text| {
            self.sum(next.sequence, next.total, stored.link, &text) == next.hash
        })
    }

    fn sum(&self, sequence: u64, total: u64, link: Option<ChainLink>, text: &[u8]) -> [u8; HASH] {
        let mut sum = Context::new(&SHA256);
        if link.is_some() {
            sum.update(&[LINKED]);
        }
        sum.update(&self.hash);
        if let Some(link) = link {
            sum.update(&link.to_bytes());
        }
        sum.update(&sequence.to_be_bytes());
        sum.update(&total.to_le_bytes());
        sum.update(text);
        let mut hash = [0; HASH];
        hash.copy_from_slice(sum.finish().as_ref());
        hash
    }

    /// The link to the row before this position.
    pub(super) fn as_link(&self) -> ChainLink {
        let mut link = ChainLink {
            sequence: self.sequence,
            ..ChainLink::default()
        };
        for (part, byte) in link.hash.iter_mut().zip(self.hash) {
            *part = byte;
        }
        link
    }

    /// The hash of the row before this position, in hexadecimal.
    pub(super) fn shown_hash(&self) -> String {
        HEXLOWER.encode(&self.hash)
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        [
            self.hash.as_slice(),
            &self.total.to_le_bytes(),
            &self.sequence.to_be_bytes(),
        ]
        .concat()
    }

    /// Reads what [`ChainPosition::to_bytes`] wrote.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, key) = bytes.split_at_checked(HEAD)?;
        Self::of(key, head)
    }
}

/// The row of the other class that a row is linked to; `None` for a row of an earlier format, or
/// one that cannot be read.
pub(super) fn link(row: &[u8]) -> Option<ChainLink> {
    StoredRow::of(row)?.link
}
