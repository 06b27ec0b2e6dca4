//! A listener certificate from another issuer, in two files that may be replaced while they are in
//! use.

use std::{
    io,
    path::{Path, PathBuf},
};

use ring::digest;

use super::{Certificate, Error, KeyedCertificate, PrivateKey, Result, secret_of, text_of};

/// A leaf with its key, and the certificates above it.
#[derive(Debug, Clone)]
pub struct ExternalCertificate {
    leaf: KeyedCertificate,
    above: Vec<Certificate>,
}

impl ExternalCertificate {
    /// Reads a chain, leaf first, and the leaf's key. Both may be in one file, whose text is then
    /// given twice. A root at the end is not sent in handshakes; it is given to clients that ask
    /// which authorities to trust.
    ///
    /// # Errors
    /// The errors of [`Certificate::in_file`] and [`PrivateKey::in_file`]; [`Error::KeyMismatch`];
    /// [`Error::NotACa`] if a certificate after the leaf is not an authority.
    pub fn read(chain: &str, key: &str) -> Result<Self> {
        let mut chain = Certificate::in_file(chain)?.into_iter();
        let leaf =
            KeyedCertificate::new(chain.next().ok_or(Error::NoPem)?, PrivateKey::in_file(key)?)?;
        let above: Vec<Certificate> = chain.collect();
        if above.iter().any(|ca| !ca.may_sign()) {
            return Err(Error::NotACa);
        }
        Ok(Self { leaf, above })
    }

    /// The leaf and its key.
    pub fn leaf(&self) -> &KeyedCertificate {
        &self.leaf
    }

    /// The certificates above the leaf, in the order of the file.
    pub fn above(&self) -> &[Certificate] {
        &self.above
    }

    /// The certificates that clients must trust to verify the leaf. A self-signed leaf is its own
    /// authority.
    pub(super) fn authorities(&self) -> impl Iterator<Item = &Certificate> {
        self.above.iter().chain([self.leaf.certificate()])
    }
}

/// The two files, and what they contained at the last read.
pub struct Files {
    certificate: PathBuf,
    key: PathBuf,
    seen: Option<digest::Digest>,
}

impl Files {
    /// The files of the chain and of the key; both PEM, and possibly the same file. The files are
    /// not read yet.
    pub fn new(certificate: &Path, key: &Path) -> Self {
        Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            seen: None,
        }
    }

    /// Reads the files. `None` if they are unchanged since the last call.
    ///
    /// # Errors
    /// What is wrong with them, in one line. The same error is reported once.
    pub fn read_if_changed(
        &mut self,
    ) -> std::result::Result<Option<ExternalCertificate>, FilesError> {
        let unreadable = |path: &Path, error: io::Error| FilesError::Unreadable {
            path: path.to_owned(),
            error,
        };
        let chain =
            text_of(&self.certificate).map_err(|error| unreadable(&self.certificate, error));
        let texts = chain.and_then(|chain| {
            let key = secret_of(&self.key).map_err(|error| unreadable(&self.key, error))?;
            Ok((chain, key))
        });
        let mut hash = digest::Context::new(&digest::SHA256);
        match &texts {
            Ok((chain, key)) => {
                hash.update(&chain.len().to_be_bytes());
                hash.update(chain.as_bytes());
                hash.update(key.as_bytes());
            }
            Err(error) => hash.update(error.to_string().as_bytes()),
        }
        let found = hash.finish();
        let known = self.seen.replace(found);
        if known.is_some_and(|known| known.as_ref() == found.as_ref()) {
            return Ok(None);
        }
        let (chain, key) = texts?;
        ExternalCertificate::read(&chain, &key)
            .map(Some)
            .map_err(|error| FilesError::Unusable {
                certificate: self.certificate.clone(),
                key: self.key.clone(),
                error,
            })
    }
}

/// Why the two files give no certificate.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("{}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{} with {}: {error}", certificate.display(), key.display())]
    Unusable {
        certificate: PathBuf,
        key: PathBuf,
        error: Error,
    },
}
