//! Names for what is not supported: kinds of keys and signature algorithms, by their object
//! identifiers. They are for errors only.

use super::Error;
use super::der::{self, SEQUENCE};
use x509_parser::prelude::FromDer;
use x509_parser::x509::AlgorithmIdentifier;

/// Kinds of keys: the algorithm, or the curve if the algorithm has one.
const KEYS: &[(&str, &str)] = &[
    ("1.2.840.10045.3.1.1", "on the curve P-192"),
    ("1.3.132.0.33", "on the curve P-224"),
    ("1.3.132.0.35", "on the curve P-521"),
    ("1.3.132.0.10", "on the curve secp256k1"),
    ("1.3.36.3.3.2.8.1.1.7", "on the curve brainpoolP256r1"),
    ("1.3.36.3.3.2.8.1.1.11", "on the curve brainpoolP384r1"),
    ("1.3.36.3.3.2.8.1.1.13", "on the curve brainpoolP512r1"),
    ("1.2.840.10040.4.1", "for DSA"),
    ("1.2.840.113549.1.1.10", "for RSASSA-PSS only"),
    ("1.3.101.110", "on X25519, which does not sign"),
    ("1.3.101.113", "on Ed448"),
    ("2.16.840.1.101.3.4.3.17", "for ML-DSA-44"),
    ("2.16.840.1.101.3.4.3.18", "for ML-DSA-65"),
    ("2.16.840.1.101.3.4.3.19", "for ML-DSA-87"),
];

/// MD5 and SHA-1, with which old roots have signed themselves.
const OLD_SIGNATURES: &[(&str, &str)] = &[
    ("1.2.840.113549.1.1.4", "RSA and MD5"),
    ("1.2.840.113549.1.1.5", "RSA and SHA-1"),
    ("1.2.840.10045.4.1", "ECDSA and SHA-1"),
    ("1.2.840.10040.4.3", "DSA and SHA-1"),
];
const SIGNATURES: &[(&str, &str)] = &[
    ("1.2.840.113549.1.1.14", "RSA and SHA-224"),
    ("1.2.840.113549.1.1.15", "RSA and SHA-512/224"),
    ("1.2.840.113549.1.1.16", "RSA and SHA-512/256"),
    ("1.2.840.113549.1.1.10", "RSASSA-PSS with these parameters"),
    ("1.2.840.10045.4.3.1", "ECDSA and SHA-224"),
    ("2.16.840.1.101.3.4.3.1", "DSA and SHA-224"),
    ("2.16.840.1.101.3.4.3.2", "DSA and SHA-256"),
    ("2.16.840.1.101.3.4.3.9", "ECDSA and SHA3-224"),
    ("2.16.840.1.101.3.4.3.10", "ECDSA and SHA3-256"),
    ("2.16.840.1.101.3.4.3.11", "ECDSA and SHA3-384"),
    ("2.16.840.1.101.3.4.3.12", "ECDSA and SHA3-512"),
    ("2.16.840.1.101.3.4.3.13", "RSA and SHA3-224"),
    ("2.16.840.1.101.3.4.3.14", "RSA and SHA3-256"),
    ("2.16.840.1.101.3.4.3.15", "RSA and SHA3-384"),
    ("2.16.840.1.101.3.4.3.16", "RSA and SHA3-512"),
    ("1.3.101.113", "Ed448"),
    ("2.16.840.1.101.3.4.3.17", "ML-DSA-44"),
    ("2.16.840.1.101.3.4.3.18", "ML-DSA-65"),
    ("2.16.840.1.101.3.4.3.19", "ML-DSA-87"),
];

/// The error about a kind of key. `algorithm` is the content of its algorithm identifier (RFC 5280
/// section 4.1.1.2).
pub(super) fn key(algorithm: &[u8]) -> Error {
    let Some((algorithm, parameter)) = identifiers(algorithm) else {
        return Error::BadDer;
    };
    let named = [parameter.as_deref(), Some(algorithm.as_str())]
        .into_iter()
        .flatten()
        .find_map(|id| name_in(KEYS, id));
    Error::Unsupported(match named {
        Some(name) => format!("a key {name}").into(),
        None => format!("a key of the algorithm {}", parameter.unwrap_or(algorithm)).into(),
    })
}

/// The error about a signature algorithm. `algorithm` is the content of its identifier.
pub(super) fn signature(algorithm: &[u8]) -> Error {
    let Some((algorithm, _)) = identifiers(algorithm) else {
        return Error::BadDer;
    };
    Error::Unsupported(
        match name_in(OLD_SIGNATURES, &algorithm).or_else(|| name_in(SIGNATURES, &algorithm)) {
            Some(name) => format!("a signature with {name}").into(),
            None => format!("a signature with the algorithm {algorithm}").into(),
        },
    )
}

/// Whether this is an algorithm with which old roots have signed themselves, although they sign
/// differently today.
pub(super) fn is_old_signature(algorithm: &[u8]) -> bool {
    identifiers(algorithm)
        .is_some_and(|(algorithm, _)| name_in(OLD_SIGNATURES, &algorithm).is_some())
}

fn name_in(table: &[(&str, &'static str)], id: &str) -> Option<&'static str> {
    table
        .iter()
        .find(|(known, _)| *known == id)
        .map(|(_, name)| *name)
}

/// The object identifiers of the algorithm and of its parameter, if that is one, with dots.
fn identifiers(algorithm: &[u8]) -> Option<(String, Option<String>)> {
    let whole = der::element(SEQUENCE, algorithm);
    let (_, read) = AlgorithmIdentifier::from_der(&whole).ok()?;
    let parameter = read
        .parameters
        .as_ref()
        .and_then(|parameter| parameter.as_oid().ok())
        .map(|id| id.to_id_string());
    Some((read.algorithm.to_id_string(), parameter))
}
