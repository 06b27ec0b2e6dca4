//! The requirement of a posture check on an endpoint.

use std::{collections::HashSet, hash::Hash};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Semantic;

/// A requirement on an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "typeId",
    rename_all = "SCREAMING_SNAKE_CASE",
    rename_all_fields = "camelCase"
)]
#[schemars(rename = "PostureDemand")]
pub enum PostureRequirement {
    /// It runs one of these operating systems.
    Os {
        #[schemars(length(min = 1))]
        operating_systems: Vec<OperatingSystem>,
    },
    /// It belongs to one of these Windows domains, compared without case.
    Domain {
        #[schemars(length(min = 1))]
        domains: Vec<String>,
    },
    /// It has one of these MAC addresses. Only the hexadecimal digits are compared.
    Mac {
        #[schemars(length(min = 1))]
        mac_addresses: Vec<String>,
    },
    /// It runs a process.
    Process { process: Process },
    /// It runs several processes: all of them or one, as `semantic` says.
    ProcessMulti {
        semantic: Semantic,
        #[schemars(length(min = 1))]
        processes: Vec<ProcessMulti>,
    },
    /// A one-time code was entered in the API session.
    Mfa {
        /// How many seconds the code is valid; -1 or 0 means without limit.
        #[serde(default)]
        #[schemars(with = "Option<i64>")]
        timeout_seconds: i64,
        /// Whether a new code is required after the endpoint woke up.
        #[serde(default)]
        #[schemars(with = "Option<bool>")]
        prompt_on_wake: bool,
        /// Whether a new code is required after the endpoint was unlocked.
        #[serde(default)]
        #[schemars(with = "Option<bool>")]
        prompt_on_unlock: bool,
        /// Whether endpoints that are too old to ask for a code are shown no timeout.
        #[serde(default)]
        #[schemars(with = "Option<bool>")]
        ignore_legacy_endpoints: bool,
    },
}

/// The kinds of requirements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PostureKind {
    Os,
    Process,
    Domain,
    Mac,
    Mfa,
    ProcessMulti,
}

/// A family of operating systems.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum OsType {
    Windows,
    WindowsServer,
    Android,
    #[serde(rename = "iOS")]
    Ios,
    Linux,
    #[serde(rename = "macOS")]
    MacOs,
}

/// An operating system in some versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperatingSystem {
    #[serde(rename = "type")]
    pub os_type: OsType,
    /// Ranges such as `>=10.0.0`, `1.2.3` or `1.x`; an empty list allows every version.
    pub versions: Vec<String>,
}

/// A process by its path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-required-always" = true))]
pub struct Process {
    pub os_type: OsType,
    pub path: String,
    /// Allowed SHA-512 hashes of the file, in hexadecimal digits; an empty list allows any.
    #[serde(default)]
    pub hashes: Vec<String>,
    /// SHA-1 of the certificate it is signed with, in hexadecimal digits; empty allows any.
    #[serde(default)]
    pub signer_fingerprint: String,
}

/// A process by its path, with several allowed signers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessMulti {
    pub os_type: OsType,
    pub path: String,
    /// Allowed SHA-512 hashes of the file, in hexadecimal digits; an empty list allows any.
    #[serde(default)]
    pub hashes: Vec<String>,
    /// Allowed SHA-1 fingerprints of the certificate it is signed with, in hexadecimal digits; an
    /// empty list allows any.
    #[serde(default)]
    pub signer_fingerprints: Vec<String>,
}

impl PostureKind {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Os => "OS",
            Self::Process => "PROCESS",
            Self::Domain => "DOMAIN",
            Self::Mac => "MAC",
            Self::Mfa => "MFA",
            Self::ProcessMulti => "PROCESS_MULTI",
        }
    }
}

impl OsType {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Windows => "Windows",
            Self::WindowsServer => "WindowsServer",
            Self::Android => "Android",
            Self::Ios => "iOS",
            Self::Linux => "Linux",
            Self::MacOs => "macOS",
        }
    }
}

impl PostureRequirement {
    /// The kind of requirement.
    pub fn kind(&self) -> PostureKind {
        match self {
            Self::Os { .. } => PostureKind::Os,
            Self::Domain { .. } => PostureKind::Domain,
            Self::Mac { .. } => PostureKind::Mac,
            Self::Process { .. } => PostureKind::Process,
            Self::ProcessMulti { .. } => PostureKind::ProcessMulti,
            Self::Mfa { .. } => PostureKind::Mfa,
        }
    }

    /// Normalizes it: lists are sorted and without duplicates, of which the last one counts;
    /// hexadecimal texts are in lower case (MAC addresses also without separators), except those of
    /// several processes; no timeout is -1.
    pub fn tidy(&mut self) {
        match self {
            PostureRequirement::Os { operating_systems } => {
                for os in operating_systems.iter_mut() {
                    sort(&mut os.versions);
                }
                keep_last(operating_systems, |os| os.os_type);
                operating_systems.sort_by_key(|os| os.os_type);
            }
            PostureRequirement::Domain { domains } => sort(domains),
            PostureRequirement::Mac { mac_addresses } => {
                for address in mac_addresses.iter_mut() {
                    *address = hexadecimal(address);
                }
                sort(mac_addresses);
            }
            PostureRequirement::Process { process } => {
                for hash in &mut process.hashes {
                    *hash = hash.to_lowercase();
                }
                sort(&mut process.hashes);
                process.signer_fingerprint = process.signer_fingerprint.to_lowercase();
            }
            PostureRequirement::ProcessMulti { processes, .. } => {
                for process in processes.iter_mut() {
                    sort(&mut process.hashes);
                    sort(&mut process.signer_fingerprints);
                }
                keep_last(processes, |process| (process.os_type, process.path.clone()));
            }
            PostureRequirement::Mfa {
                timeout_seconds, ..
            } => {
                if *timeout_seconds <= 0 {
                    *timeout_seconds = -1;
                }
            }
        }
    }
}

fn sort(texts: &mut Vec<String>) {
    texts.sort_unstable();
    texts.dedup();
}

/// Keeps only the last item with each key.
fn keep_last<T, K: Eq + Hash>(items: &mut Vec<T>, key: impl Fn(&T) -> K) {
    let mut met = HashSet::new();
    items.reverse();
    items.retain(|item| met.insert(key(item)));
    items.reverse();
}

/// The hexadecimal digits of a text in lower case, for comparing addresses and fingerprints.
pub fn hexadecimal(text: &str) -> String {
    text.chars()
        .filter(char::is_ascii_hexdigit)
        .map(|digit| digit.to_ascii_lowercase())
        .collect()
}
