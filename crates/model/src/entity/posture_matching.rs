//! What no endpoint can ever satisfy in a posture check.

use std::collections::HashSet;

use super::{
    Semantic, VersionRange,
    posture_requirement::{OperatingSystem, OsType, PostureRequirement, ProcessMulti, hexadecimal},
    unmatchable::Unmatchable,
};

/// The digits of a MAC address: those of Ethernet (EUI-48), of EUI-64, and of IP over InfiniBand.
const MAC_DIGITS: [usize; 3] = [12, 16, 40];
/// The digits of a SHA-512 hash and of a SHA-1 fingerprint.
const HASH_DIGITS: usize = 128;
const FINGERPRINT_DIGITS: usize = 40;

impl PostureRequirement {
    /// The members that no endpoint can ever satisfy.
    pub(crate) fn unmatchable(&self) -> Vec<Unmatchable> {
        match self {
            Self::Os { operating_systems } => systems(operating_systems),
            Self::Domain { domains } => domains
                .iter()
                .filter_map(|domain| unusable_domain(domain))
                .collect(),
            Self::Mac { mac_addresses } => mac_addresses
                .iter()
                .filter_map(|address| unusable_address(address))
                .collect(),
            Self::Process { process } => {
                let signers = Some(&process.signer_fingerprint).filter(|signer| !signer.is_empty());
                let mut found = unusable_path("process.path", &process.path);
                found.extend(
                    process
                        .hashes
                        .iter()
                        .filter_map(|hash| unusable_digits("process.hashes", hash, HASH_DIGITS)),
                );
                found.extend(signers.and_then(|signer| {
                    unusable_digits("process.signerFingerprint", signer, FINGERPRINT_DIGITS)
                }));
                found
            }
            Self::ProcessMulti {
                semantic,
                processes,
            } => several(*semantic, processes),
            Self::Mfa { .. } => Vec::new(),
        }
    }
}

fn systems(systems: &[OperatingSystem]) -> Vec<Unmatchable> {
    const MEMBER: &str = "operatingSystems";
    let mut met = HashSet::new();
    let twice = systems
        .iter()
        .filter(|os| !met.insert(os.os_type))
        .map(|os| {
            let kind = os.os_type.as_str();
            Unmatchable::refused(
                MEMBER,
                format!("has {kind} twice; one entry holds all versions of a system"),
                kind,
            )
        });
    let twice: Vec<_> = twice.collect();
    let empty = |range: &&String| VersionRange::parse(range).is_some_and(|range| range.is_empty());
    let ranges = systems.iter().flat_map(|os| &os.versions).filter(empty);
    twice
        .into_iter()
        .chain(ranges.map(|range| {
            Unmatchable::refused(MEMBER, "has a range that contains no version", range)
        }))
        .collect()
}

fn unusable_domain(domain: &str) -> Option<Unmatchable> {
    let reason = if domain.trim().is_empty() {
        "must not be blank"
    } else {
        "must not begin or end with white space"
    };
    (domain.trim() != domain || domain.is_empty())
        .then(|| Unmatchable::refused("domains", reason, domain))
}

fn unusable_address(address: &str) -> Option<Unmatchable> {
    let is_address =
        is_separated_digits(address) && MAC_DIGITS.contains(&hexadecimal(address).len());
    let reason = "must be a MAC address: 12, 16 or 40 hexadecimal digits, which may be separated";
    (!is_address).then(|| Unmatchable::refused("macAddresses", reason, address))
}

fn unusable_path(member: &str, path: &str) -> Vec<Unmatchable> {
    if path.trim().is_empty() {
        vec![Unmatchable::refused(member, "must not be blank", path)]
    } else {
        Vec::new()
    }
}

/// A hash or fingerprint that cannot be that of a file or certificate. One of another length is
/// recorded as accepted.
fn unusable_digits(member: &str, text: &str, digits: usize) -> Option<Unmatchable> {
    let count = hexadecimal(text).len();
    match count {
        0 => Some(Unmatchable::refused(
            member,
            "must have hexadecimal digits",
            text,
        )),
        _ if !is_separated_digits(text) => Some(Unmatchable::refused(
            member,
            "must have nothing but hexadecimal digits",
            text,
        )),
        _ if count == digits => None,
        _ => Some(Unmatchable::accepted(
            member,
            format!("has {count} hexadecimal digits instead of {digits}"),
            text,
        )),
    }
}

/// Whether a text has nothing but hexadecimal digits and what separates them.
fn is_separated_digits(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '-' | '.' | '_') || c.is_whitespace())
}

fn several(semantic: Semantic, processes: &[ProcessMulti]) -> Vec<Unmatchable> {
    let (mut found, mut met) = (Vec::new(), HashSet::new());
    for (at, process) in processes.iter().enumerate() {
        let member = |name: &str| format!("processes.{at}.{name}");
        found.extend(unusable_path(&member("path"), &process.path));
        found.extend(
            process
                .hashes
                .iter()
                .filter_map(|hash| unusable_digits(&member("hashes"), hash, HASH_DIGITS)),
        );
        let signers = process.signer_fingerprints.iter();
        found.extend(signers.filter_map(|signer| {
            unusable_digits(&member("signerFingerprints"), signer, FINGERPRINT_DIGITS)
        }));
        if !met.insert((process.os_type, process.path.as_str())) {
            let reason = format!(
                "is in the list twice for {}; one entry holds all hashes and signers",
                process.os_type.as_str()
            );
            found.push(Unmatchable::refused(member("path"), reason, &process.path));
        }
    }
    let families: HashSet<OsType> = processes
        .iter()
        .map(|process| family(process.os_type))
        .collect();
    if semantic == Semantic::AllOf && families.len() > 1 {
        let reason = "has processes of several operating systems, and semantic is AllOf: no endpoint runs all of them";
        found.push(Unmatchable::accepted("processes", reason, ""));
    }
    found
}

/// The family of an operating system: a Windows server runs what a Windows runs.
fn family(os_type: OsType) -> OsType {
    if os_type == OsType::WindowsServer {
        OsType::Windows
    } else {
        os_type
    }
}
