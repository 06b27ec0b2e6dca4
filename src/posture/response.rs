//! What an endpoint says of itself, one answer to a posture check at a time.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::{Error, Result};

/// No hash, fingerprint or address may have more bytes: what they are says how long they are.
const LONGEST_DIGITS: usize = 256;
/// So many addresses an endpoint may have, and so many signers a process; more than any has.
const MOST_ADDRESSES: usize = 256;
const MOST_SIGNERS: usize = 32;

/// One answer. `id` is that of the posture check that asked; only answers about processes are kept by it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(tag = "typeId", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
#[schemars(rename = "PostureResponse")]
pub enum Response {
    /// The operating system it runs.
    Os {
        id: String,
        /// Its family, such as `Linux`.
        #[serde(rename = "type")]
        os_type: String,
        /// Three numbers, such as `10.0.19041`.
        version: String,
        #[serde(default)]
        build: String,
    },
    /// The Windows domain it belongs to.
    Domain { id: String, domain: String },
    /// The MAC addresses it has.
    Mac { id: String, mac_addresses: Vec<String> },
    /// A process that was looked for. Checks of several processes are answered so too, once for each path.
    Process {
        id: String,
        #[serde(default)]
        path: String,
        #[serde(default)]
        is_running: bool,
        /// SHA-512 of the file, in hexadecimal digits.
        #[serde(default)]
        hash: String,
        /// SHA-1 of the certificates it is signed with, in hexadecimal digits.
        #[serde(default)]
        signer_fingerprints: Vec<String>,
    },
    /// What happened to it just now.
    EndpointState {
        id: String,
        /// It woke up.
        #[serde(default)]
        woken: bool,
        /// It was unlocked.
        #[serde(default)]
        unlocked: bool,
    },
}

impl Response {
    /// Bounds on what is kept of it: no text may have more bytes than the `longest`.
    ///
    /// # Errors
    /// A text or a list is too long.
    pub fn check(&self, longest: usize) -> Result<()> {
        let texts = |members: &[(&str, &String)]| members.iter().try_for_each(|(name, member)| text(name, member, longest));
        match self {
            Self::Os { id, os_type, version, build } => texts(&[("id", id), ("type", os_type), ("version", version), ("build", build)]),
            Self::Domain { id, domain } => texts(&[("id", id), ("domain", domain)]),
            Self::Mac { id, mac_addresses } => texts(&[("id", id)]).and_then(|()| list("macAddresses", mac_addresses, MOST_ADDRESSES)),
            Self::Process { id, path, hash, signer_fingerprints, .. } => {
                texts(&[("id", id), ("path", path)])?;
                text("hash", hash, LONGEST_DIGITS)?;
                list("signerFingerprints", signer_fingerprints, MOST_SIGNERS)
            }
            Self::EndpointState { id, .. } => texts(&[("id", id)]),
        }
    }
}

fn text(name: &str, text: &str, longest: usize) -> Result<()> {
    if text.len() > longest { Err(Error::invalid(name, format!("must have at most {longest} bytes"), "")) } else { Ok(()) }
}

fn list(name: &str, entries: &[String], most: usize) -> Result<()> {
    if entries.len() > most {
        return Err(Error::invalid(name, format!("must have at most {most} entries"), ""));
    }
    entries.iter().try_for_each(|entry| text(name, entry, LONGEST_DIGITS))
}
