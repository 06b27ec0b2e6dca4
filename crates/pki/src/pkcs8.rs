//! Private keys in PKCS #8 form (RFC 5208).

use super::der::{self, INTEGER, OCTET_STRING, SEQUENCE};
use super::{Error, Result};

/// Wraps a key in its own format as PKCS#8.
pub(super) fn wrapped(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let version = der::element(INTEGER, &[0]);
    der::element(
        SEQUENCE,
        &[
            version,
            der::element(SEQUENCE, algorithm),
            der::element(OCTET_STRING, key),
        ]
        .concat(),
    )
}

/// The content of the algorithm identifier of a key.
pub(super) fn algorithm_of(pkcs8: &[u8]) -> Result<&[u8]> {
    match der::inside(SEQUENCE, pkcs8)?.as_slice() {
        [_, algorithm, ..] => der::content_of(SEQUENCE, algorithm),
        _ => Err(Error::BadDer),
    }
}
