//! The DER functions (X.690) that the parsers lack: splitting a structure into its elements and
//! writing an element.

use super::{Error, Result};
use x509_parser::asn1_rs::{Any, FromDer};

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const UTF8_STRING: u8 = 0x0c;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// One element: tag, definite length, content.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant: Vec<u8> = length
        .iter()
        .copied()
        .skip_while(|byte| *byte == 0)
        .collect();
    let mut out = vec![tag];
    match significant.as_slice() {
        [] => out.push(0),
        [short @ 0..=0x7f] => out.push(*short),
        long => {
            out.push(0x80 | long.len() as u8);
            out.extend_from_slice(long);
        }
    }
    out.extend_from_slice(content);
    out
}

/// A bit string of whole bytes.
pub(super) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes].concat())
}

/// The content of `bytes`, which must be exactly one element.
pub(super) fn content(bytes: &[u8]) -> Result<&[u8]> {
    match Any::from_der(bytes) {
        Ok(([], any)) => Ok(any.data),
        _ => Err(Error::BadDer),
    }
}

/// As [`content`], for an element that must have this tag.
pub(super) fn content_of(tag: u8, bytes: &[u8]) -> Result<&[u8]> {
    if bytes.first() == Some(&tag) {
        content(bytes)
    } else {
        Err(Error::BadDer)
    }
}

/// The elements, with headers, of `bytes`, which must be a sequence or set with this tag.
pub(super) fn inside(tag: u8, bytes: &[u8]) -> Result<Vec<&[u8]>> {
    let mut left = content_of(tag, bytes)?;
    let mut found = Vec::new();
    while !left.is_empty() {
        let (rest, _) = Any::from_der(left).map_err(|_| Error::BadDer)?;
        found.push(left.get(..left.len() - rest.len()).ok_or(Error::BadDer)?);
        left = rest;
    }
    Ok(found)
}

/// The bytes of a bit string without unused bits.
pub(super) fn bits(bytes: &[u8]) -> Result<&[u8]> {
    match content_of(BIT_STRING, bytes)? {
        [0, bits @ ..] => Ok(bits),
        _ => Err(Error::BadDer),
    }
}
