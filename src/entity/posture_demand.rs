//! What a posture check demands of an endpoint.

use std::{collections::HashSet, hash::Hash};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Semantic;

/// What is demanded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "typeId", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
#[schemars(rename = "PostureDemand")]
pub enum Demand {
    /// It runs one of these operating systems.
    Os {
        #[schemars(length(min = 1))]
        operating_systems: Vec<OperatingSystem>,
    },
    /// It belongs to one of these Windows domains. Case does not matter.
    Domain {
        #[schemars(length(min = 1))]
        domains: Vec<String>,
    },
    /// It has one of these MAC addresses. Only the hexadecimal digits count.
    Mac {
        #[schemars(length(min = 1))]
        mac_addresses: Vec<String>,
    },
    /// A process runs there.
    Process { process: Process },
    /// Several processes run there: all of them or one, as `semantic` says.
    ProcessMulti {
        semantic: Semantic,
        #[schemars(length(min = 1))]
        processes: Vec<ProcessMulti>,
    },
    /// A one-time code was given in the API session.
    Mfa {
        /// For so many seconds it counts; -1, or nothing above 0: for ever.
        #[serde(default)]
        #[schemars(with = "Option<i64>")]
        timeout_seconds: i64,
        /// Whether it must be given anew after the endpoint woke up.
        #[serde(default)]
        #[schemars(with = "Option<bool>")]
        prompt_on_wake: bool,
        /// Whether it must be given anew after the endpoint was unlocked.
        #[serde(default)]
        #[schemars(with = "Option<bool>")]
        prompt_on_unlock: bool,
        /// Whether endpoints that are too old to ask for a code are shown no timeout.
        #[serde(default)]
        #[schemars(with = "Option<bool>")]
        ignore_legacy_endpoints: bool,
    },
}

/// The word for a kind of demand.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
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

/// An operating system in some of its versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperatingSystem {
    #[serde(rename = "type")]
    pub os_type: OsType,
    /// Ranges such as `>=10.0.0`, `1.2.3` or `1.x`; none: every version.
    pub versions: Vec<String>,
}

/// A process by its path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-required-always" = true))]
pub struct Process {
    pub os_type: OsType,
    pub path: String,
    /// SHA-512 of the file, in hexadecimal digits: one of these; none: any.
    #[serde(default)]
    pub hashes: Vec<String>,
    /// SHA-1 of the certificate it is signed with, in hexadecimal digits; blank: any.
    #[serde(default)]
    pub signer_fingerprint: String,
}

/// A process by its path, signed by one of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessMulti {
    pub os_type: OsType,
    pub path: String,
    /// SHA-512 of the file, in hexadecimal digits: one of these; none: any.
    #[serde(default)]
    pub hashes: Vec<String>,
    /// SHA-1 of the certificate it is signed with, in hexadecimal digits: one of these; none: any.
    #[serde(default)]
    pub signer_fingerprints: Vec<String>,
}

impl PostureKind {
    /// The word on the wire.
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
    /// The word on the wire.
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

impl Demand {
    /// The word for it.
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

    /// Its normal form: lists sorted, and nothing in them twice, of which the later counts; hexadecimal digits in lower case and nothing
    /// between them, but as they are for several processes; no timeout as -1.
    pub fn tidy(&mut self) {
        match self {
            Demand::Os { operating_systems } => {
                operating_systems.iter_mut().for_each(|os| sorted(&mut os.versions));
                keep_last(operating_systems, |os| os.os_type);
                operating_systems.sort_by_key(|os| os.os_type);
            }
            Demand::Domain { domains } => sorted(domains),
            Demand::Mac { mac_addresses } => {
                mac_addresses.iter_mut().for_each(|address| *address = hexadecimal(address));
                sorted(mac_addresses);
            }
            Demand::Process { process } => {
                process.hashes.iter_mut().for_each(|hash| *hash = hash.to_lowercase());
                sorted(&mut process.hashes);
                process.signer_fingerprint = process.signer_fingerprint.to_lowercase();
            }
            Demand::ProcessMulti { processes, .. } => {
                for process in processes.iter_mut() {
                    sorted(&mut process.hashes);
                    sorted(&mut process.signer_fingerprints);
                }
                keep_last(processes, |process| (process.os_type, process.path.clone()));
            }
            Demand::Mfa { timeout_seconds, .. } => {
                if *timeout_seconds <= 0 {
                    *timeout_seconds = -1;
                }
            }
        }
    }
}

fn sorted(texts: &mut Vec<String>) {
    texts.sort_unstable();
    texts.dedup();
}

/// Leaves of those with the same key only the last.
fn keep_last<T, K: Eq + Hash>(items: &mut Vec<T>, key: impl Fn(&T) -> K) {
    let mut met = HashSet::new();
    items.reverse();
    items.retain(|item| met.insert(key(item)));
    items.reverse();
}

/// The hexadecimal digits of a text, in lower case: as addresses and fingerprints are compared, however they are written.
pub fn hexadecimal(text: &str) -> String {
    text.chars().filter(char::is_ascii_hexdigit).map(|digit| digit.to_ascii_lowercase()).collect()
}
