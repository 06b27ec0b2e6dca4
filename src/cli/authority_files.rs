//! The files of another controller's authority, for `overkeep pki adopt` and `overkeep import`.

use std::path::{Path, PathBuf};

use clap::Args;
use pki::{secret_of, text_of};

use super::failure::CommandError;
use crate::admin_socket::Command;

/// The files of the authority of another controller, all PEM; all of them or none.
#[derive(Args, Clone, Debug)]
pub(crate) struct AuthorityFiles {
    /// The certificate of another controller that signs those of identities and routers; the
    /// authorities above it may follow
    #[arg(long, value_name = "FILE", requires_all = ["signing_key", "root_bundle"])]
    signing_cert: Option<PathBuf>,
    /// The key of the signing certificate, unencrypted
    #[arg(long, value_name = "FILE", requires = "signing_cert")]
    signing_key: Option<PathBuf>,
    /// The authorities that identities and routers trust, up to the root
    #[arg(long, value_name = "FILE", requires = "signing_cert")]
    root_bundle: Option<PathBuf>,
}

impl AuthorityFiles {
    /// Whether flags name the files.
    pub(crate) fn is_given(&self) -> bool {
        self.signing_cert.is_some()
    }

    /// The command that adopts the authority, if flags name it.
    ///
    /// # Errors
    /// A file cannot be read, or has more than 1 MiB.
    pub(crate) fn command(&self) -> Result<Option<Command>, CommandError> {
        let (Some(certificate), Some(key), Some(bundle)) =
            (&self.signing_cert, &self.signing_key, &self.root_bundle)
        else {
            return Ok(None);
        };
        let named = |flag: &'static str, path: &Path, error: std::io::Error| {
            CommandError::of(format!("{flag}: {}: {error}", path.display()))
        };
        Ok(Some(Command::AdoptAuthority {
            certificate: text_of(certificate)
                .map_err(|error| named("--signing-cert", certificate, error))?,
            key: secret_of(key).map_err(|error| named("--signing-key", key, error))?,
            bundle: text_of(bundle).map_err(|error| named("--root-bundle", bundle, error))?,
        }))
    }
}
