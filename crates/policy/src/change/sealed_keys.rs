//! Storage of the controller's own secrets: in plain, or sealed with a key derived from a
//! passphrase.
//!
//! The secrets are its private keys and the key that seals secrets in records; all of them are
//! stored and read here. Not here: their content (`certificates.rs`, `first_start.rs`). Start at
//! [`SealedKeys`]. Invariant: a file in which secrets are sealed never contained one in plain; so
//! setting or changing the passphrase writes a new file (`maintenance/src/offline.rs`).

use std::sync::Arc;

use model::error::{Error, Result};
use pki::{self, Derivation, Passphrase, Seal};
use store::{Read, Reader, Tx};
use zeroize::Zeroizing;

/// The setting that says how the key is derived from the passphrase; absent if secrets are stored
/// in plain.
const DERIVATION: &str = "passphrase";
/// The configuration key that names the passphrase file, for errors.
const KEY: &str = "passphrase-file";

/// A secret of the controller, by its setting, which is also bound into its seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Secret(&'static str);

impl Secret {
    /// Keys and certificates.
    pub(super) const MATERIAL: Self = Self("pki");
    /// The key that seals secrets in records.
    pub(super) const SEAL: Self = Self("seal");
    const ALL: [Self; 2] = [Self::MATERIAL, Self::SEAL];

    /// The error for a stored secret that is not valid.
    pub(super) fn damaged(self, reason: &str) -> Error {
        Error::Damaged {
            kind: "setting",
            id: self.0.into(),
            reason: reason.into(),
        }
    }
}

/// Stores secrets and reads them; sealed if made with a passphrase, otherwise in plain. Cheap to
/// clone.
#[derive(Clone, Default)]
pub struct SealedKeys(Option<Arc<Sealing>>);

struct Sealing {
    derivation: Derivation,
    seal: Seal,
}

impl SealedKeys {
    /// For a file without secrets; they will be sealed if there is a passphrase. The key derivation
    /// takes a while.
    ///
    /// # Errors
    /// There is no randomness.
    pub fn new(passphrase: Option<&Passphrase>) -> Result<Self> {
        let made = passphrase
            .map(Derivation::new)
            .transpose()
            .map_err(|e| Error::Internal(format!("a key for a passphrase: {e}")))?;
        Ok(Self(made.map(|(derivation, seal)| {
            Arc::new(Sealing { derivation, seal })
        })))
    }

    /// For an existing file that must match the configuration.
    ///
    /// # Errors
    /// As [`SealedKeys::of`]; also [`Error::Invalid`] if there is a passphrase and the file is not
    /// sealed.
    pub fn open(store: &Reader, passphrase: Option<&Passphrase>) -> Result<Self> {
        let sealed_keys = Self::of(store, passphrase)?;
        if passphrase.is_some() && !sealed_keys.is_sealed() {
            return Err(refused(
                "the keys in the data file are not sealed; overkeep passphrase set FILE seals them",
            ));
        }
        Ok(sealed_keys)
    }

    /// For an existing file. A passphrase that is not needed is ignored.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the passphrase is missing or wrong.
    pub fn of(store: &Reader, passphrase: Option<&Passphrase>) -> Result<Self> {
        let missing = || {
            refused(
                "the keys in the data file are sealed; set passphrase-file to the file with their passphrase",
            )
        };
        Self::unlock(store, passphrase)?.ok_or_else(missing)
    }

    /// Like [`SealedKeys::of`]; `None` if the passphrase is missing. The key derivation takes a
    /// while.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the passphrase is wrong; [`Error::Damaged`] if the derivation cannot
    /// be read.
    pub fn unlock(store: &Reader, passphrase: Option<&Passphrase>) -> Result<Option<Self>> {
        let Some(text) = store.read(|read| read.setting(DERIVATION))? else {
            return Ok(Some(Self::default()));
        };
        let damaged = || Secret(DERIVATION).damaged("it cannot be read");
        let derivation: Derivation = serde_json::from_slice(&text).map_err(|_| damaged())?;
        let Some(passphrase) = passphrase else {
            return Ok(None);
        };
        match derivation.seal(passphrase) {
            Ok(seal) => Ok(Some(Self(Some(Arc::new(Sealing { derivation, seal }))))),
            Err(pki::Error::BadSignature) => Err(refused(
                "the passphrase is not the one that sealed the keys in the data file",
            )),
            Err(_) => Err(damaged()),
        }
    }

    /// Whether secrets are sealed.
    pub fn is_sealed(&self) -> bool {
        self.0.is_some()
    }

    /// Stores the derivation in a file, together with the first secret.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn save_derivation(&self, tx: &Tx<'_>) -> Result<()> {
        let text = self
            .0
            .as_ref()
            .map(|sealing| serde_json::to_vec(&sealing.derivation))
            .transpose();
        let text = text.map_err(|e| Error::Internal(format!("a passphrase: {e}")))?;
        tx.set_setting(DERIVATION, text.as_deref())
    }

    /// Stores a secret.
    ///
    /// # Errors
    /// The file cannot be written, or there is no randomness.
    pub(super) fn save(&self, tx: &Tx<'_>, secret: Secret, bytes: &[u8]) -> Result<()> {
        let Some(sealing) = &self.0 else {
            return tx.set_setting(secret.0, Some(bytes));
        };
        let sealed = sealing
            .seal
            .seal(secret.0, bytes)
            .map_err(|e| Error::Internal(format!("sealing keys: {e}")))?;
        tx.set_setting(secret.0, Some(&sealed))
    }

    /// A stored secret, if it exists. It is wiped from memory when it is dropped.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it cannot be decrypted; the file cannot be read.
    pub(super) fn find(
        &self,
        read: &Read<'_>,
        secret: Secret,
    ) -> Result<Option<Zeroizing<Vec<u8>>>> {
        let stored = read.setting(secret.0)?.map(Zeroizing::new);
        let Some(sealing) = &self.0 else {
            return Ok(stored);
        };
        let opened = stored
            .map(|sealed| sealing.seal.open(secret.0, &sealed).map(Zeroizing::new))
            .transpose();
        opened.map_err(|_| secret.damaged("it cannot be decrypted"))
    }

    /// Stores every secret again, sealed by `next`.
    ///
    /// # Errors
    /// One cannot be read or written.
    pub fn reseal(&self, tx: &Tx<'_>, next: &Self) -> Result<()> {
        for secret in Secret::ALL {
            if let Some(bytes) = self.find(tx.read(), secret)? {
                next.save(tx, secret, &bytes)?;
            }
        }
        next.save_derivation(tx)
    }
}

fn refused(reason: &str) -> Error {
    Error::invalid(KEY, reason, "")
}
