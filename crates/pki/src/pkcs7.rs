//! The certificates-only form of PKCS#7 (RFC 5652 section 5, "degenerate"), in which EST serves
//! authorities (RFC 7030 section 4.1.3).

use super::chain::authorities;
use super::der::{self, INTEGER, OBJECT_IDENTIFIER, SEQUENCE, SET, element};
use super::{Certificate, Error, Result};
use base64::{Engine, engine::general_purpose::STANDARD};

const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
const SIGNED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02];
/// `[0]`, constructed: the content of a ContentInfo, and the certificates of a SignedData.
const FIRST: u8 = 0xa0;
/// `[1]`, constructed: the revocation lists of a SignedData.
const SECOND: u8 = 0xa1;
const LINE: usize = 64;

/// The authorities among `certificates`, without duplicates, as a DER ContentInfo without content,
/// revocation lists or signers.
pub fn certificates_only(certificates: &[Certificate]) -> Vec<u8> {
    let mut ders: Vec<&[u8]> = authorities(certificates)
        .into_iter()
        .map(|authority| authority.der().as_ref())
        .collect();
    ders.sort_unstable(); // DER order of a SET OF
    let signed_data = [
        element(INTEGER, &[1]),
        element(SET, &[]),
        element(SEQUENCE, &element(OBJECT_IDENTIFIER, DATA)),
        element(FIRST, &ders.concat()),
        element(SECOND, &[]),
        element(SET, &[]),
    ];
    let content = element(FIRST, &element(SEQUENCE, &signed_data.concat()));
    element(
        SEQUENCE,
        &[element(OBJECT_IDENTIFIER, SIGNED_DATA), content].concat(),
    )
}

/// [`certificates_only`] as the body of an EST response: base64 in lines of 64 characters,
/// separated by line feeds, without a final line feed.
pub fn certificates_only_base64(certificates: &[Certificate]) -> String {
    let text = STANDARD.encode(certificates_only(certificates));
    let mut out = String::with_capacity(text.len() + text.len() / LINE);
    for (at, letter) in text.chars().enumerate() {
        if at > 0 && at % LINE == 0 {
            out.push('\n');
        }
        out.push(letter);
    }
    out
}

/// The certificates in the body of an EST response: base64 with any white space, of a ContentInfo
/// as in [`certificates_only`].
///
/// # Errors
/// [`Error::BadDer`].
pub fn certificates_of_base64(text: &str) -> Result<Vec<Certificate>> {
    let text: String = text.split_whitespace().collect();
    let content_info = STANDARD.decode(text).map_err(|_| Error::BadDer)?;
    let content = match der::inside(SEQUENCE, &content_info)?.as_slice() {
        [kind, content] if *kind == element(OBJECT_IDENTIFIER, SIGNED_DATA) => *content,
        _ => return Err(Error::BadDer),
    };
    let signed_data = der::inside(SEQUENCE, der::content_of(FIRST, content)?)?;
    let certificates = signed_data
        .into_iter()
        .find(|part| part.first() == Some(&FIRST))
        .ok_or(Error::BadDer)?;
    der::inside(FIRST, certificates)?
        .into_iter()
        .map(Certificate::from_der)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlternativeNames, Material};

    #[test]
    fn certificates_are_read_as_they_were_written() {
        let material =
            Material::generate(&AlternativeNames::of_hosts(["ctrl.test"]), 1_800_000_000).unwrap();
        let written = [&material.root, &material.intermediate]
            .map(|stored| Certificate::first(&stored.certificate).unwrap());
        let mut read = certificates_of_base64(&certificates_only_base64(&written)).unwrap();
        assert_eq!(read.len(), written.len());
        read.retain(|certificate| !written.contains(certificate));
        assert!(read.is_empty());
    }

    #[test]
    fn other_bytes_are_rejected() {
        let material =
            Material::generate(&AlternativeNames::of_hosts(["ctrl.test"]), 1_800_000_000).unwrap();
        let root = Certificate::first(&material.root.certificate).unwrap();
        let whole = certificates_only(&[root]);
        for end in 0..whole.len() {
            assert!(certificates_of_base64(&STANDARD.encode(&whole[..end])).is_err());
        }
        assert!(certificates_of_base64("no base64").is_err());
    }
}
