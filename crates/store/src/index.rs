//! The index entries of a record, as a pure function of the record, and their layout in the index
//! table.
//!
//! Key: code, value, id. The code identifies kind and field in four bytes ([`code`]). The value is
//! external input: a zero byte in it is written as `00 FF`, and `00 00` ends it. So no value can
//! run into the id, and keys sort by value, then id. If a value is longer than [`MAX_LENGTH`], the
//! key holds its first bytes, `00 01` and its SHA-256, and the row holds the whole value.
//!
//! A change of the indexed fields needs the next file format (`file/upgrade.rs`), because existing
//! files have other rows.

use std::{borrow::Cow, collections::BTreeMap};

use query::Value;
use ring::digest::{SHA256, digest};

use model::entity::{Entity, Index, Kind, Record};

/// The prefix of a field's keys.
pub type IndexCode = [u8; CODE];
const CODE: usize = 4;
/// Values up to this many bytes are in the key unhashed.
const MAX_LENGTH: usize = 200;
const ZERO: [u8; 2] = [0, 0xFF];
const END: [u8; 2] = [0, 0];
const CUT: [u8; 2] = [0, 1];
const HASH: usize = 32;

/// One row of the index table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    pub field: &'static str,
    pub key: Vec<u8>,
    /// The length of code and value in the key; the id follows.
    pub prefix: usize,
    /// The whole value, if the key does not hold it; otherwise empty.
    pub row: Vec<u8>,
    /// Whether no two records may have entries with the same prefix.
    pub unique: bool,
}

/// The index entries of a record, ordered by key, without duplicates: a field and a reference of
/// the same name have the same entries.
pub(crate) fn entries<E: Entity>(record: &Record<E>) -> Vec<IndexEntry> {
    let mut found = BTreeMap::new();
    let mut add = |field: &'static str, value: &[u8], unique: bool| {
        let mut key = prefix(E::KIND, field, value);
        let prefix = key.len();
        key.extend_from_slice(record.id.as_str().as_bytes());
        let row = if value.len() > MAX_LENGTH {
            value.to_vec()
        } else {
            Vec::new()
        };
        found.entry(key).or_insert((field, prefix, row, false)).3 |= unique;
    };
    for field in E::FIELDS.iter().filter(|field| field.index != Index::None) {
        let unique = matches!(field.index, Index::Unique | Index::Every);
        match (field.value)(record) {
            Value::Set(members) => {
                for member in members.iter() {
                    add(field.name, member.as_bytes(), unique);
                }
            }
            Value::Text(text) if !(unique && text.is_empty()) => {
                add(field.name, text.as_bytes(), unique)
            }
            _ => {}
        }
    }
    for reference in E::REFERENCES {
        for id in (reference.ids)(record) {
            add(reference.field, id.as_bytes(), false);
        }
    }
    found
        .into_iter()
        .map(|(key, (field, prefix, row, unique))| IndexEntry {
            field,
            key,
            prefix,
            row,
            unique,
        })
        .collect()
}

/// The code of a kind's field: CRC-32 of both names. A test checks that no two fields share one.
pub fn code(kind: Kind, field: &str) -> IndexCode {
    let mut sum = crc32fast::Hasher::new();
    for part in [kind.name, ".", field] {
        sum.update(part.as_bytes());
    }
    sum.finalize().to_be_bytes()
}

/// The prefix of the keys with this value of a field; the id follows.
pub(crate) fn prefix(kind: Kind, name: &str, value: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(64);
    key.extend(code(kind, name));
    for byte in value.iter().take(MAX_LENGTH) {
        if *byte == 0 {
            key.extend(ZERO)
        } else {
            key.push(*byte)
        }
    }
    if value.len() <= MAX_LENGTH {
        key.extend(END);
    } else {
        key.extend(CUT);
        key.extend_from_slice(digest(&SHA256, value).as_ref());
    }
    key
}

/// The code of a row's field, and the id of its record. `None` if the row is malformed.
pub(crate) fn parts<'k>(key: &'k [u8], row: &[u8]) -> Option<(IndexCode, &'k str)> {
    let (_, prefix) = value(key, row)?;
    Some((
        *key.first_chunk()?,
        std::str::from_utf8(key.get(prefix..)?).ok()?,
    ))
}

/// The smallest key after all keys with a prefix.
pub(crate) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut key = prefix.to_vec();
    while let Some(last) = key.pop() {
        if last < 0xFF {
            key.push(last + 1);
            break;
        }
    }
    key
}

/// The value of a row, and the length of its key's prefix. `None` if the row is malformed.
pub(crate) fn value<'r>(key: &'r [u8], row: &'r [u8]) -> Option<(Cow<'r, [u8]>, usize)> {
    let coded = key.get(CODE..)?;
    let mut text = Cow::Borrowed(&[][..]);
    let mut at = 0;
    loop {
        let zero = at + coded.get(at..)?.iter().position(|byte| *byte == 0)?;
        let part = coded.get(at..zero)?;
        // Few values contain a zero byte; the others are borrowed.
        if at == 0 {
            text = Cow::Borrowed(part)
        } else {
            text.to_mut().extend_from_slice(part)
        }
        at = zero + 2;
        match [0, *coded.get(zero + 1)?] {
            ZERO => text.to_mut().push(0),
            END => return Some((text, CODE + at)),
            CUT => return Some((Cow::Borrowed(row), CODE + at + HASH)),
            _ => return None,
        }
    }
}
