//! Encryption of stored secrets with a key of the controller or of a passphrase (AES-256-GCM, NIST
//! SP 800-38D, with ring). A sealed text opens only in the context it was sealed for, so that one
//! cannot replace another.

use super::{Error, Result};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt;

/// Encrypts and decrypts with one key.
pub struct Seal(LessSafeKey);

impl Seal {
    /// The length of the key in bytes.
    pub(super) const KEY_BYTES: usize = 32;

    /// A new key from the system's randomness.
    ///
    /// # Errors
    /// [`Error::Internal`] if there is no randomness.
    pub fn new_key() -> Result<[u8; Self::KEY_BYTES]> {
        random()
    }

    /// The seal with this key of 32 bytes.
    ///
    /// # Errors
    /// [`Error::BadKey`] for another length.
    pub fn new(key: &[u8]) -> Result<Self> {
        UnboundKey::new(&AES_256_GCM, key)
            .map(|key| Self(LessSafeKey::new(key)))
            .map_err(|_| Error::BadKey)
    }

    /// Seals a text for a context. Nonces are random: one key may seal some billions of texts.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn seal(&self, context: &str, text: &[u8]) -> Result<Vec<u8>> {
        let nonce: [u8; NONCE_LEN] = random()?;
        let mut sealed = text.to_vec();
        self.0
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(context.as_bytes()),
                &mut sealed,
            )
            .map_err(|_| Error::Internal("a text is too long to be sealed".into()))?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Opens what was sealed for a context.
    ///
    /// # Errors
    /// [`Error::BadSignature`] for another key, another context, or changed bytes.
    pub fn open(&self, context: &str, sealed: &[u8]) -> Result<Vec<u8>> {
        let (nonce, rest) = sealed
            .split_first_chunk::<NONCE_LEN>()
            .ok_or(Error::BadSignature)?;
        let mut text = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        // Decrypted in place, so that no copy is left behind.
        let length = self
            .0
            .open_in_place(nonce, Aad::from(context.as_bytes()), &mut text)
            .map_err(|_| Error::BadSignature)?
            .len();
        text.truncate(length);
        Ok(text)
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal(..)")
    }
}

/// Bytes from the system's randomness.
///
/// # Errors
/// [`Error::Internal`] if there is no randomness.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Error::Internal("no randomness".into()))?;
    Ok(bytes)
}
