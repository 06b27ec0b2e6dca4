//! Which certificate authorities of a remote controller are trusted: given ones, one with a given
//! fingerprint, or those that a person confirms.

use std::{
    io::{self, BufRead, IsTerminal, Read, Write},
    path::PathBuf,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use clap::Args;
use data_encoding::HEXUPPER;
use pki::{Certificate, text_of};
use ring::digest::{SHA256, digest};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{api::https::Patience, failure::CommandError};

/// The maximum bytes of the answer with the authorities, and of a typed line.
const MAX_LENGTH: u64 = 256 << 10;

/// The flags about the authority of a controller.
#[derive(Args, Clone, Debug)]
pub(crate) struct Trust {
    /// Trust the certificate authorities in this PEM file, without confirmation
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fingerprint", "yes"])]
    ca: Option<PathBuf>,
    /// Trust the certificate authority with this SHA-256 fingerprint, without confirmation
    #[arg(long, value_name = "HEX", conflicts_with = "yes")]
    fingerprint: Option<String>,
    /// Trust any certificate authority that the controller presents
    #[arg(long)]
    yes: bool,
}

impl Trust {
    /// The certificate authorities to trust, in PEM, and their fingerprints.
    ///
    /// # Errors
    /// One line: a file cannot be read, the controller does not answer, or its authority is not
    /// trusted.
    pub(super) fn authority(&self, url: &str) -> Result<(String, String), CommandError> {
        if let Some(path) = &self.ca {
            let pem = text_of(path)
                .map_err(|error| CommandError::of(format!("--ca: {}: {error}", path.display())))?;
            let read = Certificate::in_file(&pem)
                .map_err(|error| CommandError::of(format!("--ca: {}: {error}", path.display())))?;
            // The file may also hold a private key, which is not to be copied.
            let certificates: String = read.iter().map(Certificate::pem).collect();
            let shown: Vec<String> = read
                .iter()
                .map(|certificate| fingerprint(certificate.der()))
                .collect();
            return Ok((certificates, shown.join(", ")));
        }
        let roots = shown_by(url)?;
        let prints: Vec<String> = roots.iter().map(|der| fingerprint(der)).collect();
        let trusted: Vec<&Vec<u8>> = match &self.fingerprint {
            None => roots.iter().collect(),
            Some(wanted) => {
                let wanted = bare(wanted);
                roots
                    .iter()
                    .zip(&prints)
                    .filter(|(_, print)| bare(print) == wanted)
                    .map(|(der, _)| der)
                    .collect()
            }
        };
        if trusted.is_empty() {
            return Err(CommandError::of(format!(
                "the authority of {url} has another fingerprint: {}",
                prints.join(", ")
            )));
        }
        if self.fingerprint.is_none() && !self.yes {
            confirm(url, &prints)?;
        }
        let pem: String = trusted
            .iter()
            .map(|der| pem::encode(&pem::Pem::new("CERTIFICATE", der.as_slice())))
            .collect();
        Ok((
            pem,
            trusted
                .iter()
                .map(|der| fingerprint(der))
                .collect::<Vec<_>>()
                .join(", "),
        ))
    }
}

/// The self-signed authorities that a controller presents, in DER. They are unproven until a person
/// compares their fingerprints.
fn shown_by(url: &str) -> Result<Vec<Vec<u8>>, CommandError> {
    let refused = |error: String| CommandError::of(format!("{url}: {error}"));
    let answer = super::api::https::agent(None, Patience::Login)?
        .get(format!("{url}/.well-known/est/cacerts"))
        .call();
    let mut answer = answer.map_err(|error| refused(error.to_string()))?;
    let text = answer
        .body_mut()
        .with_config()
        .limit(MAX_LENGTH)
        .read_to_string()
        .map_err(|error| refused(error.to_string()))?;
    roots_of(&text).map_err(|reason| refused(reason.into()))
}

/// The self-signed authorities in an answer of `/.well-known/est/cacerts`, in DER.
///
/// # Errors
/// It holds none.
pub(super) fn roots_of(text: &str) -> Result<Vec<Vec<u8>>, &'static str> {
    let der = STANDARD
        .decode(text.split_whitespace().collect::<String>())
        .map_err(|_| "the answer is not that of a controller: check the address")?;
    let roots: Vec<Vec<u8>> = certificates(&der);
    if roots.is_empty() {
        Err("the controller presents no certificate authority")
    } else {
        Ok(roots)
    }
}

/// The self-signed certificates found anywhere in a DER structure.
fn certificates(mut der: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some((_, next)) = der.split_first() {
        der = match X509Certificate::from_der(der) {
            Ok((rest, certificate)) => {
                let whole = der
                    .get(..der.len().saturating_sub(rest.len()))
                    .unwrap_or_default();
                found.extend(
                    (certificate.subject() == certificate.issuer()).then(|| whole.to_vec()),
                );
                rest
            }
            Err(_) => next,
        };
    }
    found
}

fn fingerprint(der: &[u8]) -> String {
    digest(&SHA256, der)
        .as_ref()
        .iter()
        .map(|byte| HEXUPPER.encode(&[*byte]))
        .collect::<Vec<_>>()
        .join(":")
}

fn bare(fingerprint: &str) -> String {
    fingerprint
        .chars()
        .filter(char::is_ascii_hexdigit)
        .map(|digit| digit.to_ascii_lowercase())
        .collect()
}

fn confirm(url: &str, prints: &[String]) -> Result<(), CommandError> {
    if !io::stdin().is_terminal() {
        let shown = prints.join(", ");
        return Err(CommandError::of(format!(
            "the authority of {url} has the SHA-256 fingerprint {shown}: trust it with --fingerprint"
        )));
    }
    drop(write!(
        io::stderr(),
        "The authority of {url} has the SHA-256 fingerprint\n  {}\nTrust it? [y/N] ",
        prints.join("\n  ")
    ));
    let mut line = String::new();
    io::stdin()
        .lock()
        .take(MAX_LENGTH)
        .read_line(&mut line)
        .map_err(CommandError::of)?;
    if ["y", "yes"].contains(&line.trim().to_ascii_lowercase().as_str()) {
        Ok(())
    } else {
        Err(CommandError::of(
            "the certificate authority was not confirmed",
        ))
    }
}
