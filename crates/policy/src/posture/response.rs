//! The answers of an endpoint to posture checks.

use model::error::{Error, Result};
use schemars::JsonSchema;
use serde::Deserialize;

/// The maximum length in bytes of a hash, fingerprint or address: real ones are far shorter.
const MAX_DIGITS: usize = 256;
/// The maximum number of addresses of an endpoint, and of signers of a process; more than real ones
/// have.
const MAX_ADDRESSES: usize = 256;
const MAX_SIGNERS: usize = 32;

/// One answer. `id` is the id of the posture check; only answers about processes are stored by it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(
    tag = "typeId",
    rename_all = "SCREAMING_SNAKE_CASE",
    rename_all_fields = "camelCase"
)]
#[schemars(rename = "PostureResponse")]
pub enum Response {
    /// The operating system of the endpoint.
    Os {
        id: String,
        /// The family, such as `Linux`.
        #[serde(rename = "type")]
        os_type: String,
        /// Three numbers, such as `10.0.19041`.
        version: String,
        #[serde(default)]
        build: String,
    },
    /// The Windows domain of the endpoint.
    Domain { id: String, domain: String },
    /// The MAC addresses of the endpoint.
    Mac {
        id: String,
        mac_addresses: Vec<String>,
    },
    /// The state of a process. A check of several processes is answered once per path.
    Process {
        id: String,
        #[serde(default)]
        path: String,
        #[serde(default)]
        is_running: bool,
        /// SHA-512 of the file, in hexadecimal digits.
        #[serde(default)]
        hash: String,
        /// SHA-1 fingerprints of the signing certificates, in hexadecimal digits.
        #[serde(default)]
        signer_fingerprints: Vec<String>,
    },
    /// An event at the endpoint, just now.
    EndpointState {
        id: String,
        /// The endpoint woke up.
        #[serde(default)]
        woken: bool,
        /// The endpoint was unlocked.
        #[serde(default)]
        unlocked: bool,
    },
}

impl Response {
    /// Checks the bounds of the answer: each text has at most `longest` bytes.
    ///
    /// # Errors
    /// A text or a list is too long.
    pub fn check(&self, longest: usize) -> Result<()> {
        let texts = |members: &[(&str, &String)]| {
            members
                .iter()
                .try_for_each(|(name, member)| text(name, member, longest))
        };
        match self {
            Self::Os {
                id,
                os_type,
                version,
                build,
            } => texts(&[
                ("id", id),
                ("type", os_type),
                ("version", version),
                ("build", build),
            ]),
            Self::Domain { id, domain } => texts(&[("id", id), ("domain", domain)]),
            Self::Mac { id, mac_addresses } => texts(&[("id", id)])
                .and_then(|()| list("macAddresses", mac_addresses, MAX_ADDRESSES)),
            Self::Process {
                id,
                path,
                hash,
                signer_fingerprints,
                ..
            } => {
                texts(&[("id", id), ("path", path)])?;
                text("hash", hash, MAX_DIGITS)?;
                list("signerFingerprints", signer_fingerprints, MAX_SIGNERS)
            }
            Self::EndpointState { id, .. } => texts(&[("id", id)]),
        }
    }
}

fn text(name: &str, text: &str, longest: usize) -> Result<()> {
    if text.len() > longest {
        Err(Error::invalid(
            name,
            format!("must have at most {longest} bytes"),
            "",
        ))
    } else {
        Ok(())
    }
}

fn list(name: &str, entries: &[String], limit: usize) -> Result<()> {
    if entries.len() > limit {
        return Err(Error::invalid(
            name,
            format!("must have at most {limit} entries"),
            "",
        ));
    }
    entries
        .iter()
        .try_for_each(|entry| text(name, entry, MAX_DIGITS))
}
