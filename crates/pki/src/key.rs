//! Private and public keys.

use super::der::{self, OBJECT_IDENTIFIER, SEQUENCE};
use super::{
    Error, Result, pem,
    pkcs8::{algorithm_of, wrapped},
    rsa, unsupported,
};
use rcgen::{KeyPair, PublicKeyData, SignatureAlgorithm, SigningKey};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, alg_id};
use std::fmt;
use std::sync::Arc;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey as Parsed;
use x509_parser::x509::SubjectPublicKeyInfo;
use zeroize::Zeroizing;

/// The shortest RSA key, in bits; also ring's limit.
const MIN_RSA_BITS: usize = 2048;
/// id-ecPublicKey (RFC 5480).
const EC_PUBLIC_KEY: &[u8] = &[
    OBJECT_IDENTIFIER,
    0x07,
    0x2a,
    0x86,
    0x48,
    0xce,
    0x3d,
    0x02,
    0x01,
];

/// The supported kinds of keys. P-521 is missing because ring does not support it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA of 2048 to 8192 bits.
    Rsa,
    /// Elliptic curve P-256.
    P256,
    /// Elliptic curve P-384.
    P384,
    /// Ed25519.
    Ed25519,
}

/// A private key. Cheap to clone; `Debug` prints only its kind. rcgen wipes its bytes when the last
/// clone is dropped.
#[derive(Clone)]
pub struct PrivateKey(Arc<KeyPair>);

impl PrivateKey {
    /// A new key from the system's randomness.
    ///
    /// # Errors
    /// [`Error::Internal`] if there is no randomness.
    pub fn generate(kind: KeyKind) -> Result<Self> {
        let algorithm = match kind {
            KeyKind::P256 => &rcgen::PKCS_ECDSA_P256_SHA256,
            KeyKind::P384 => &rcgen::PKCS_ECDSA_P384_SHA384,
            KeyKind::Ed25519 => &rcgen::PKCS_ED25519,
            KeyKind::Rsa => {
                let pair = KeyPair::try_from(Zeroizing::new(rsa::generate()?).as_slice())
                    .map_err(|_| Error::Internal("a generated RSA key is invalid".into()))?;
                return Ok(Self(Arc::new(pair)));
            }
        };
        Ok(Self(Arc::new(KeyPair::generate_for(algorithm)?)))
    }

    /// Reads one unencrypted key: PKCS#8 (`PRIVATE KEY`, RFC 5958), or the older forms `EC PRIVATE
    /// KEY` (RFC 5915) and `RSA PRIVATE KEY` (RFC 8017). An `EC PARAMETERS` block, which older
    /// tools add, is skipped.
    ///
    /// # Errors
    /// [`Error::NoPem`], [`Error::Trailing`]; [`Error::Unsupported`] for another kind of key;
    /// [`Error::BadKey`] for everything else.
    pub fn from_pem(text: &str) -> Result<Self> {
        let mut blocks = pem::all(text)?;
        blocks.retain(|block| block.tag() != "EC PARAMETERS");
        let [block] = blocks.as_slice() else {
            return Err(Error::Trailing);
        };
        Self::from_block(block)
    }

    /// Reads the only key in the text of an operator's file, which may also hold certificates and
    /// any text (RFC 7468 section 2).
    ///
    /// # Errors
    /// As for [`from_pem`](Self::from_pem); [`Error::Trailing`] for several keys, [`Error::NoKey`]
    /// for none.
    pub fn in_file(text: &str) -> Result<Self> {
        let mut blocks = pem::in_file(text)?;
        blocks.retain(|block| block.tag().ends_with("PRIVATE KEY"));
        match blocks.as_slice() {
            [] => Err(Error::NoKey),
            [block] => Self::from_block(block),
            _ => Err(Error::Trailing),
        }
    }

    fn from_block(block: &::pem::Pem) -> Result<Self> {
        let pkcs8 = Zeroizing::new(match block.tag() {
            "EC PRIVATE KEY" => wrapped(&ec_algorithm(block.contents())?, block.contents()),
            "RSA PRIVATE KEY" => wrapped(rsa::ALGORITHM, block.contents()),
            _ => block.contents().to_vec(),
        });
        let pair = KeyPair::try_from(pkcs8.as_slice()).map_err(|_| match algorithm_of(&pkcs8) {
            Ok(algorithm) if kind_of(algorithm).is_none() => unsupported::key(algorithm),
            _ => Error::BadKey,
        })?;
        Ok(Self(Arc::new(pair)))
    }

    /// One PKCS#8 block. This text is secret.
    pub fn to_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(pem::write("PRIVATE KEY", self.0.serialized_der()))
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.subject_public_key_info())
    }

    pub(super) fn pkcs8(&self) -> &[u8] {
        self.0.serialized_der()
    }

    pub(super) fn for_rustls(&self) -> PrivateKeyDer<'_> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.0.serialized_der()))
    }
}

/// The algorithm of an elliptic curve key, which names its curve itself: `[0]` after version and
/// key.
fn ec_algorithm(key: &[u8]) -> Result<Vec<u8>> {
    const PARAMETERS: u8 = 0xa0;
    let parts = der::inside(SEQUENCE, key).map_err(|_| Error::BadKey)?;
    let curve = parts
        .iter()
        .find(|part| part.first() == Some(&PARAMETERS))
        .ok_or(Error::BadKey)?;
    let curve = der::content(curve).map_err(|_| Error::BadKey)?;
    Ok([EC_PUBLIC_KEY, curve].concat())
}

/// SHA-256 for P-256 and RSA, SHA-384 for P-384; ECDSA signatures are a DER sequence.
impl SigningKey for PrivateKey {
    fn sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, rcgen::Error> {
        self.0.sign(message)
    }
}

impl PublicKeyData for PrivateKey {
    fn der_bytes(&self) -> &[u8] {
        self.0.der_bytes()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.0.algorithm()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({:?})", self.public().kind().ok())
    }
}

/// A public key: the DER of an RFC 5280 `SubjectPublicKeyInfo`. Its kind may be unsupported; see
/// [`kind`](Self::kind).
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey(Vec<u8>);

impl PublicKey {
    /// The key in the DER of a `SubjectPublicKeyInfo`, which is read later.
    pub fn from_der(der: &[u8]) -> Self {
        Self(der.to_vec())
    }

    /// The key of an uncompressed point of P-256 (RFC 5480).
    pub(super) fn of_p256(point: &[u8]) -> Self {
        let algorithm = der::element(SEQUENCE, alg_id::ECDSA_P256.as_ref());
        Self(der::element(
            SEQUENCE,
            &[algorithm, der::bit_string(point)].concat(),
        ))
    }

    /// The DER of the `SubjectPublicKeyInfo`.
    pub fn der(&self) -> &[u8] {
        &self.0
    }

    /// The kind of key.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for any other kind (P-521, P-224, secp256k1, DSA, RSA-PSS keys),
    /// [`Error::BadDer`].
    pub fn kind(&self) -> Result<KeyKind> {
        let (algorithm, _) = self.parts()?;
        kind_of(algorithm).ok_or_else(|| unsupported::key(algorithm))
    }

    /// The kind of key, if its signatures can be verified here: an RSA key needs 2048 bits.
    ///
    /// # Errors
    /// [`Error::Unsupported`], also as in [`PublicKey::kind`], [`Error::BadDer`].
    pub fn usable(&self) -> Result<KeyKind> {
        let kind = self.kind()?;
        let (_, key) = SubjectPublicKeyInfo::from_der(&self.0).map_err(|_| Error::BadDer)?;
        let is_long =
            || matches!(key.parsed(), Ok(Parsed::RSA(key)) if key.key_size() >= MIN_RSA_BITS);
        if kind != KeyKind::Rsa || is_long() {
            Ok(kind)
        } else {
            Err(Error::Unsupported("RSA key of less than 2048 bits".into()))
        }
    }

    /// The content of the algorithm identifier, and the key itself: the uncompressed point, or a
    /// PKCS#1 `RSAPublicKey`.
    pub(super) fn parts(&self) -> Result<(&[u8], &[u8])> {
        match der::inside(SEQUENCE, &self.0)?.as_slice() {
            [algorithm, bits] => Ok((der::content_of(SEQUENCE, algorithm)?, der::bits(bits)?)),
            _ => Err(Error::BadDer),
        }
    }
}

/// The kind of key with this content of its algorithm identifier.
fn kind_of(algorithm: &[u8]) -> Option<KeyKind> {
    let known = [
        (alg_id::RSA_ENCRYPTION, KeyKind::Rsa),
        (alg_id::ECDSA_P256, KeyKind::P256),
        (alg_id::ECDSA_P384, KeyKind::P384),
        (alg_id::ED25519, KeyKind::Ed25519),
    ];
    known
        .iter()
        .find(|(id, _)| id.as_ref() == algorithm)
        .map(|(_, kind)| *kind)
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:?})", self.kind().ok())
    }
}
