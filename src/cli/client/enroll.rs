//! `overkeep enroll`: a token becomes the file of an identity.

use std::{
    io::Read,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use clap::{Args, ValueEnum};
use client::{
    IdentityFile, NewIdentityFile,
    enrollment::{Credential, EnrollmentMethod, EnrollmentToken, enroll, network_token},
};
use pki::{Certificate, ClientCertificate, KeyKind, PrivateKey, secret_of, text_of};

use crate::{
    admin_socket::Outcome,
    cli::{
        failure::{CommandError, CommandResult},
        login::password,
    },
};

/// The greatest length of a token on standard input, in bytes.
const MAX_LENGTH: u64 = 64 << 10;

/// Redeem an enrollment token and write the file of the identity, which this and other clients
/// read.
#[derive(Args, Clone, Debug)]
pub(crate) struct Enroll {
    /// File with the token; - for standard input
    #[arg(value_name = "TOKEN.jwt", required_unless_present = "url")]
    token: Option<PathBuf>,
    /// Write the identity to this file [default: the name of the token's file, with .json]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Take the token that the controller at this address gives to anybody; the authorities of
    /// this machine must prove the controller
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "token",
        requires = "output"
    )]
    url: Option<String>,
    /// Kind of the key that is made
    #[arg(long, value_name = "KIND", default_value = "p256")]
    key_kind: NewKey,
    /// Certificate of an authority that the network knows, in PEM, for tokens of the methods ottca
    /// and ca
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Name of the identity, for tokens of method ca
    #[arg(long)]
    name: Option<String>,
    /// Read the new password from this file, for tokens of method updb [default: ask for it]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// The kinds of keys that are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NewKey {
    P256,
    P384,
    Rsa,
}

impl Enroll {
    /// Redeems the token.
    ///
    /// # Errors
    /// The reason, as one line. No file is written then.
    pub(crate) fn act(self) -> CommandResult {
        let token = EnrollmentToken::read(&self.token_text()?).map_err(CommandError::of)?;
        let output = self.output_for(&token);
        if output.symlink_metadata().is_ok() {
            return Err(CommandError::of(format!(
                "{} exists: choose another file with --output",
                output.display()
            )));
        }
        let credential = self.credential(&token)?;
        // A token that was spent for a file that cannot be written would be lost.
        let place = NewIdentityFile::reserve(&output).map_err(CommandError::of)?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs().cast_signed());
        let identity: IdentityFile =
            enroll(&token, credential, self.name.as_deref(), now).map_err(CommandError::of)?;
        place.write(&identity).map_err(CommandError::of)?;
        Ok(Outcome::Done(vec![format!(
            "enrolled at {}: the identity is in {}, which only you can read: whoever has it is you",
            token.controller(),
            output.display()
        )]))
    }

    fn token_text(&self) -> Result<String, CommandError> {
        if let Some(url) = &self.url {
            return network_token(url).map_err(CommandError::of);
        }
        let path = self.token.as_deref().unwrap_or(Path::new("-"));
        let failed = |error| CommandError::of(format!("{}: {error}", path.display()));
        if path != Path::new("-") {
            return text_of(path).map_err(failed);
        }
        let mut text = String::new();
        let stdin = std::io::stdin().lock();
        stdin
            .take(MAX_LENGTH)
            .read_to_string(&mut text)
            .map_err(failed)?;
        Ok(text)
    }

    fn output_for(&self, token: &EnrollmentToken) -> PathBuf {
        if let Some(output) = &self.output {
            return output.clone();
        }
        match self.token.as_deref() {
            Some(path) if path != Path::new("-") => path.with_extension("json"),
            // The subject is the text of a stranger: no more than a name is taken from it.
            _ => {
                let safe = |letter: &char| letter.is_ascii_alphanumeric() || *letter == '-';
                let name: String = token.subject().chars().filter(safe).take(64).collect();
                PathBuf::from(format!("identity-{name}.json"))
            }
        }
    }

    fn credential(&self, token: &EnrollmentToken) -> Result<Credential, CommandError> {
        if let (Some(cert), Some(key)) = (&self.cert, &self.key) {
            return certificate(cert, key).map(Credential::Certificate);
        }
        match token.method() {
            EnrollmentMethod::Updb => {
                let name = "the new account";
                password(name, self.password_file.as_deref()).map(Credential::Password)
            }
            _ => Ok(Credential::NewKey(match self.key_kind {
                NewKey::P256 => KeyKind::P256,
                NewKey::P384 => KeyKind::P384,
                NewKey::Rsa => KeyKind::Rsa,
            })),
        }
    }
}

fn certificate(cert: &Path, key: &Path) -> Result<ClientCertificate, CommandError> {
    let of = |path: &Path, error: String| CommandError::of(format!("{}: {error}", path.display()));
    let chain = text_of(cert).map_err(|error| of(cert, error.to_string()))?;
    let chain = Certificate::in_file(&chain).map_err(|error| of(cert, error.to_string()))?;
    let text = secret_of(key).map_err(|error| of(key, error.to_string()))?;
    let private = PrivateKey::in_file(&text).map_err(|error| of(key, error.to_string()))?;
    ClientCertificate::new(chain, private).map_err(|error| of(key, error.to_string()))
}
