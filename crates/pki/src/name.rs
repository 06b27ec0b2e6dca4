//! Distinguished names, stored as their original bytes.
//!
//! A name is compared, copied and issued byte for byte. Parsing it into attributes and writing it
//! again would lose string types, repeated attributes (two `OU`s are common) and unknown
//! attributes.

use super::der::{self, SEQUENCE, SET, UTF8_STRING};
use super::{Error, Result};
use data_encoding::HEXLOWER;
use std::fmt;
use x509_parser::asn1_rs::{FromDer, Oid};

/// The attribute types with a short name in RFC 4514 section 3 (and before it RFC 2253) and in Go's
/// `crypto/x509`.
const SHORT_NAMES: &[(&[u8], &str)] = &[
    (COMMON_NAME, "CN"),
    (&[0x55, 4, 5], "SERIALNUMBER"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 17], "POSTALCODE"),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1],
        "UID",
    ),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
        "DC",
    ),
];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];

/// A distinguished name: the DER of an RFC 5280 `Name`. `Display` writes it in the format of RFC
/// 2253, last part first.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Name(Vec<u8>);

/// Type (content of the object identifier) and value (a whole element).
type Attribute<'a> = (&'a [u8], &'a [u8]);

impl Name {
    /// A name that is one common name.
    pub fn of(common_name: &str) -> Self {
        Self(der::element(SEQUENCE, &common(common_name)))
    }

    pub(super) fn from_der(der: &[u8]) -> Self {
        Self(der.to_vec())
    }

    pub(super) fn der(&self) -> &[u8] {
        &self.0
    }

    /// Whether it has no attribute.
    pub fn is_empty(&self) -> bool {
        der::content_of(SEQUENCE, &self.0).is_ok_and(<[u8]>::is_empty)
    }

    /// The common name; the last one if there are several.
    pub fn common_name(&self) -> Option<String> {
        let parts = self.parts().ok()?;
        parts
            .iter()
            .flatten()
            .filter(|(kind, _)| *kind == COMMON_NAME)
            .filter_map(|(_, value)| text(value))
            .next_back()
    }

    /// All common names; empty if the name cannot be read.
    pub fn common_names(&self) -> Vec<String> {
        let parts = self.parts().unwrap_or_default();
        parts
            .iter()
            .flatten()
            .filter(|(kind, _)| *kind == COMMON_NAME)
            .filter_map(|(_, value)| text(value))
            .collect()
    }

    /// The same name with only this common name.
    ///
    /// # Errors
    /// [`Error::BadDer`] if the name cannot be read.
    pub fn with_common_name(&self, common_name: &str) -> Result<Self> {
        let mut kept = Vec::new();
        for part in self.parts()? {
            let others: Vec<u8> = part
                .iter()
                .filter(|(kind, _)| *kind != COMMON_NAME)
                .flat_map(|(kind, value)| attribute(kind, value))
                .collect();
            if !others.is_empty() {
                kept.extend(der::element(SET, &others));
            }
        }
        kept.extend(common(common_name));
        Ok(Self(der::element(SEQUENCE, &kept)))
    }

    /// The relative distinguished names in order, each with its attributes.
    fn parts(&self) -> Result<Vec<Vec<Attribute<'_>>>> {
        der::inside(SEQUENCE, &self.0)?
            .into_iter()
            .map(|part| der::inside(SET, part)?.into_iter().map(read).collect())
            .collect()
    }
}

fn read(attribute: &[u8]) -> Result<Attribute<'_>> {
    match der::inside(SEQUENCE, attribute)?.as_slice() {
        [kind, value] => Ok((der::content_of(der::OBJECT_IDENTIFIER, kind)?, value)),
        _ => Err(Error::BadDer),
    }
}

fn attribute(kind: &[u8], value: &[u8]) -> Vec<u8> {
    der::element(
        SEQUENCE,
        &[&der::element(der::OBJECT_IDENTIFIER, kind), value].concat(),
    )
}

fn common(name: &str) -> Vec<u8> {
    der::element(
        SET,
        &attribute(COMMON_NAME, &der::element(UTF8_STRING, name.as_bytes())),
    )
}

/// The text of a string value; `None` for other types and for invalid bytes.
fn text(value: &[u8]) -> Option<String> {
    let content = der::content(value).ok()?;
    match value.first()? {
        // UTF8, Numeric, Printable, IA5, Visible
        0x0c | 0x12 | 0x13 | 0x16 | 0x1a => String::from_utf8(content.to_vec()).ok(),
        // Teletex: in practice Latin-1
        0x14 => Some(content.iter().map(|byte| char::from(*byte)).collect()),
        // BMP: UTF-16, big endian
        0x1e if content.len() % 2 == 0 => {
            let units = content
                .as_chunks::<2>()
                .0
                .iter()
                .map(|unit| u16::from_be_bytes(*unit));
            char::decode_utf16(units)
                .collect::<std::result::Result<_, _>>()
                .ok()
        }
        _ => None,
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts().unwrap_or_default();
        let written: Vec<String> = parts
            .iter()
            .rev()
            .map(|part| part.iter().map(show).collect::<Vec<_>>().join("+"))
            .collect();
        f.write_str(&written.join(","))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// RFC 2253 section 2.4: short name and text if both are known, otherwise number and the bytes of
/// the element.
fn show((kind, value): &Attribute<'_>) -> String {
    let short = SHORT_NAMES
        .iter()
        .find(|(known, _)| known == kind)
        .map(|(_, short)| *short);
    match (short, text(value)) {
        (Some(short), Some(text)) => format!("{short}={}", escape(&text)),
        (Some(short), None) => format!("{short}=#{}", HEXLOWER.encode(value)),
        (None, _) => format!("{}=#{}", number(kind), HEXLOWER.encode(value)),
    }
}

fn number(kind: &[u8]) -> String {
    let element = der::element(der::OBJECT_IDENTIFIER, kind);
    Oid::from_der(&element)
        .map(|(_, oid)| oid.to_id_string())
        .unwrap_or_default()
}

fn escape(text: &str) -> String {
    let last = text.chars().count().saturating_sub(1);
    let mut out = String::with_capacity(text.len());
    for (at, letter) in text.chars().enumerate() {
        let edge = letter == ' ' && (at == 0 || at == last) || letter == '#' && at == 0;
        if edge || ",+\"\\<>;".contains(letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}
