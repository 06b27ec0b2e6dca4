//! A failing check in words: the reported and the required value.

use std::fmt;

use model::entity::{OperatingSystem, Semantic, posture_requirement::Process as Wanted};

use super::{CheckFailure, CodeFound, Criteria, FailureReason, OsFound, ProcessFound};

impl fmt::Display for CheckFailure {
    /// For people: the check, the reported value and the required value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, demanded) = self.why.words();
        let shown = if shown.trim().is_empty() {
            "nothing"
        } else {
            shown.trim()
        };
        write!(
            f,
            "{}: reported: {shown}; required: {demanded}",
            self.posture_check_name
        )
    }
}

impl FailureReason {
    /// The reported value, blank for none, and the required value, in words.
    fn words(&self) -> (String, String) {
        let running = |of: &[ProcessFound]| {
            of.iter()
                .map(ProcessFound::words)
                .collect::<Vec<_>>()
                .join(", ")
        };
        match self {
            Self::Os {
                actual_value: OsFound { os_type, version },
                expected_value,
            } => (
                format!("{os_type} {version}"),
                either(expected_value.iter().map(system)),
            ),
            Self::Domain {
                actual_value,
                expected_value,
            } => (actual_value.clone(), either(expected_value.iter().cloned())),
            Self::Mac {
                actual_value,
                expected_value,
            } => (
                actual_value.join(", "),
                either(expected_value.iter().cloned()),
            ),
            Self::Process {
                actual_value,
                expected_value:
                    Wanted {
                        path,
                        hashes,
                        signer_fingerprint,
                        ..
                    },
            } => {
                let signers = Some(signer_fingerprint)
                    .filter(|signer| !signer.is_empty())
                    .cloned();
                (
                    actual_value.words(),
                    process(path, "running", hashes, signers.as_slice()),
                )
            }
            Self::ProcessMulti {
                actual_value,
                expected_value,
                semantic,
            } => {
                let wanted = expected_value.iter().map(|wanted| {
                    process(
                        &wanted.path,
                        "running",
                        &wanted.hashes,
                        &wanted.signer_fingerprints,
                    )
                });
                let wanted: Vec<String> = wanted.collect();
                (
                    running(actual_value),
                    wanted.join(if *semantic == Semantic::AllOf {
                        " and "
                    } else {
                        " or "
                    }),
                )
            }
            Self::Mfa {
                actual_value,
                expected_value,
                criteria,
            } => (
                actual_value.words(criteria),
                expected_value.demand(criteria),
            ),
        }
    }
}

impl ProcessFound {
    fn words(&self) -> String {
        let hash = Some(&self.hash).filter(|hash| !hash.is_empty()).cloned();
        let state = if self.is_running {
            "running"
        } else {
            "not running"
        };
        process(
            &self.path,
            state,
            hash.as_slice(),
            &self.signer_fingerprints,
        )
    }
}

impl CodeFound {
    /// The given code, in words.
    fn words(&self, criteria: &Criteria) -> String {
        if !self.passed_mfa {
            return "no one-time code".into();
        }
        let old = if self.timed_out {
            format!(" of more than {} seconds ago", criteria.timeout_seconds)
        } else {
            String::new()
        };
        let woken = if self.passed_on_wake {
            ""
        } else {
            ", none after waking up"
        };
        let unlocked = if self.passed_on_unlock {
            ""
        } else {
            ", none after unlocking"
        };
        format!("a one-time code{old}{woken}{unlocked}")
    }

    /// The required code, in words.
    fn demand(&self, criteria: &Criteria) -> String {
        let timeout = criteria.timeout_seconds;
        let fresh = if timeout > 0 {
            format!(" of the last {timeout} seconds")
        } else {
            String::new()
        };
        let woken = if self.passed_on_wake {
            ", again after waking up"
        } else {
            ""
        };
        let unlocked = if self.passed_on_unlock {
            ", again after unlocking"
        } else {
            ""
        };
        format!("a one-time code{fresh}{woken}{unlocked}")
    }
}

fn system(wanted: &OperatingSystem) -> String {
    let versions = if wanted.versions.is_empty() {
        String::new()
    } else {
        format!(" ({})", wanted.versions.join(", "))
    };
    format!("{}{versions}", wanted.os_type.as_str())
}

fn process(path: &str, state: &str, hashes: &[String], signers: &[String]) -> String {
    let hashes = if hashes.is_empty() {
        String::new()
    } else {
        format!(", hash {}", hashes.join(" or "))
    };
    let signers = if signers.is_empty() {
        String::new()
    } else {
        format!(", signed with {}", signers.join(" or "))
    };
    format!("{path} {state}{hashes}{signers}")
}

fn either(wanted: impl Iterator<Item = String>) -> String {
    wanted.collect::<Vec<_>>().join(" or ")
}
