//! The key derived from a passphrase with scrypt (RFC 7914), which makes every guess as expensive
//! as the derivation itself.

use std::fmt;

use scrypt::{Params, scrypt};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{Error, Result, Seal, random};

/// log2 of scrypt's N, its block size and its parallelism: 64 MiB, and eight times the work of a
/// password hash (OWASP's Password Storage Cheat Sheet requires at least this much).
const COST: u8 = 16;
const BLOCKS: u32 = 8;
const LANES: u32 = 2;
/// The highest cost accepted from a file. This program never writes a higher one, and deriving a
/// key at such a cost could exhaust the memory.
const HIGHEST_COST: u8 = 20;
const PROOF: &str = "passphrase";

/// A passphrase. Not printed by `Debug`, and wiped from memory when it is dropped.
#[derive(Clone)]
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// The whole text is the passphrase.
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

/// How the key is derived from the passphrase; stored beside what it seals. Not secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Derivation {
    /// log2 of scrypt's N.
    cost: u8,
    salt: [u8; 16],
    /// An empty text sealed with the key; distinguishes a wrong passphrase from damage.
    proof: Vec<u8>,
}

impl Derivation {
    /// A new key for a passphrase, with a new salt.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn new(passphrase: &Passphrase) -> Result<(Self, Seal)> {
        let (cost, salt) = (COST, random()?);
        let seal = key(passphrase, cost, &salt)?;
        let proof = seal.seal(PROOF, &[])?;
        Ok((Self { cost, salt, proof }, seal))
    }

    /// Derives the key again.
    ///
    /// # Errors
    /// [`Error::BadSignature`] for a wrong passphrase; [`Error::Unsupported`] for a cost that we do
    /// not use.
    pub fn seal(&self, passphrase: &Passphrase) -> Result<Seal> {
        let seal = key(passphrase, self.cost, &self.salt)?;
        seal.open(PROOF, &self.proof).map(|_| seal)
    }
}

fn key(passphrase: &Passphrase, cost: u8, salt: &[u8]) -> Result<Seal> {
    let unsupported = Error::Unsupported("cost of a passphrase".into());
    let params = Some(cost)
        .filter(|cost| *cost <= HIGHEST_COST)
        .and_then(|cost| Params::new(cost, BLOCKS, LANES).ok());
    let mut key = Zeroizing::new([0; Seal::KEY_BYTES]);
    scrypt(
        passphrase.0.as_bytes(),
        salt,
        &params.ok_or(unsupported)?,
        key.as_mut(),
    )
    .map_err(|_| Error::BadKey)?;
    Seal::new(key.as_ref())
}
