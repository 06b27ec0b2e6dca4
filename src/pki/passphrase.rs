//! The key that comes of a passphrase: scrypt (RFC 7914), so that each guess costs whoever guesses as much as the right one costs us.

use std::fmt;

use scrypt::{Params, scrypt};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{Error, Result, Seal, random};

/// log2 of scrypt's N, and its block size and parallelism: 64 MiB, and eight times the work that a password is hashed with (OWASP's
/// Password Storage Cheat Sheet asks for as much at least).
const COST: u8 = 16;
const BLOCKS: u32 = 8;
const LANES: u32 = 2;
/// What a file asks for beyond this, it was not us who wrote it: nobody's memory is to go to that.
const HIGHEST_COST: u8 = 20;
const PROOF: &str = "passphrase";

/// What its owner knows and no file says. Shown by nothing, and wiped from memory when it is dropped.
#[derive(Clone)]
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// This text, all of it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }
}

impl From<Zeroizing<String>> for Passphrase {
    fn from(text: Zeroizing<String>) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(..)")
    }
}

/// How the key comes of the passphrase; to be stored beside what it seals. No secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Derivation {
    /// log2 of scrypt's N.
    cost: u8,
    salt: [u8; 16],
    /// Nothing, sealed with the key: by this a wrong passphrase is told from damage.
    proof: Vec<u8>,
}

impl Derivation {
    /// A new key for a passphrase, unlike all others that come of it.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn new(passphrase: &Passphrase) -> Result<(Self, Seal)> {
        let (cost, salt) = (COST, random()?);
        let seal = key(passphrase, cost, &salt)?;
        let proof = seal.seal(PROOF, &[])?;
        Ok((Self { cost, salt, proof }, seal))
    }

    /// The same key again.
    ///
    /// # Errors
    /// [`Error::BadSignature`] if it is another passphrase; [`Error::Unsupported`] for a cost that is not one of ours.
    pub fn seal(&self, passphrase: &Passphrase) -> Result<Seal> {
        let seal = key(passphrase, self.cost, &self.salt)?;
        seal.open(PROOF, &self.proof).map(|_| seal)
    }
}

fn key(passphrase: &Passphrase, cost: u8, salt: &[u8]) -> Result<Seal> {
    let unsupported = Error::Unsupported("cost of a passphrase");
    let params = Some(cost).filter(|cost| *cost <= HIGHEST_COST).and_then(|cost| Params::new(cost, BLOCKS, LANES).ok());
    let mut key = Zeroizing::new([0; Seal::KEY_BYTES]);
    scrypt(passphrase.0.as_bytes(), salt, &params.ok_or(unsupported)?, key.as_mut()).map_err(|_| Error::BadKey)?;
    Seal::new(key.as_ref())
}
