//! Service requests that failed posture checks, as administrators see them.

mod words;

use model::{
    clock::{CalendarTime, Timestamp},
    entity::{
        ApiSession, Id, OperatingSystem, OsType, PolicyType, PostureCheck, PostureRequirement,
        Record, Semantic, Service, ServicePolicy, TypedLookup,
        endpoint_report::Process,
        posture_requirement::{Process as Wanted, ProcessMulti},
    },
    error::{Error, Result},
};
use schemars::JsonSchema;
use serde::Serialize;
use store::Read;

use super::{
    EvaluatedCheck, Evidence,
    evaluation::{CodeState, FOREVER, seconds_left},
    evidence::SessionMfaState,
};

/// A service request that failed its posture checks.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FailedServiceRequest")]
pub struct FailedRequest {
    pub api_session_id: Id<ApiSession>,
    pub service_id: Id<Service>,
    pub service_name: String,
    /// The requested right.
    pub session_type: PolicyType,
    pub when: Timestamp,
    /// The policies that would have granted it, up to the first one that would make the request
    /// longer than 64 KiB.
    pub policy_failures: Vec<PolicyFailure>,
}

impl FailedRequest {
    /// Drops the policies that do not fit into `limit` bytes of JSON. Returns the request with its
    /// length as JSON, in bytes.
    ///
    /// # Errors
    /// `Internal` if it has no JSON form, which is a defect.
    pub(crate) fn shortened(mut self, limit: usize) -> Result<(usize, Self)> {
        let policies = std::mem::take(&mut self.policy_failures);
        let mut length = json_bytes(&self)?;
        for policy in policies {
            let more = json_bytes(&policy)? + 1;
            if length + more > limit {
                break;
            }
            length += more;
            self.policy_failures.push(policy);
        }
        Ok((length, self))
    }
}

/// The length of a value as JSON, in bytes.
fn json_bytes(value: &impl Serialize) -> Result<usize> {
    serde_json::to_vec(value)
        .map(|text| text.len())
        .map_err(|e| Error::Internal(format!("cannot write a failed request as JSON: {e}")))
}

/// A policy with failing checks.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyFailure {
    policy_id: String,
    policy_name: String,
    checks: Vec<CheckFailure>,
}

impl PolicyFailure {
    /// The failing checks among those judged for a policy.
    ///
    /// # Errors
    /// The policy cannot be read.
    pub fn of(
        policy: &str,
        judged: &[EvaluatedCheck],
        evidence: &Evidence,
        tx: &Read<'_>,
    ) -> Result<Self> {
        let record = tx.find(&Id::<ServicePolicy>::from_text(policy))?;
        let failed = judged.iter().filter(|judged| !judged.verdict.passes);
        Ok(Self {
            policy_id: policy.to_owned(),
            policy_name: record.map(|policy| policy.spec.name).unwrap_or_default(),
            checks: failed
                .map(|judged| CheckFailure::of(&judged.check, evidence))
                .collect(),
        })
    }
}

/// A failing check.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PostureCheckFailure")]
pub(crate) struct CheckFailure {
    posture_check_id: String,
    posture_check_name: String,
    #[serde(flatten)]
    why: FailureReason,
}

impl CheckFailure {
    /// Why an endpoint fails a check.
    pub(crate) fn of(check: &Record<PostureCheck>, evidence: &Evidence) -> Self {
        let why = FailureReason::of(&check.spec.demand, check.id.as_str(), evidence);
        Self {
            posture_check_id: check.id.to_string(),
            posture_check_name: check.spec.name.clone(),
            why,
        }
    }
}

/// The reported and the required value.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(
    tag = "postureCheckType",
    rename_all = "SCREAMING_SNAKE_CASE",
    rename_all_fields = "camelCase"
)]
enum FailureReason {
    Os {
        actual_value: OsFound,
        #[schemars(length(min = 1))]
        expected_value: Vec<OperatingSystem>,
    },
    Domain {
        actual_value: String,
        expected_value: Vec<String>,
    },
    Mac {
        actual_value: Vec<String>,
        expected_value: Vec<String>,
    },
    Process {
        actual_value: ProcessFound,
        expected_value: Wanted,
    },
    ProcessMulti {
        actual_value: Vec<ProcessFound>,
        expected_value: Vec<ProcessMulti>,
        semantic: Semantic,
    },
    Mfa {
        actual_value: CodeFound,
        expected_value: CodeFound,
        criteria: Criteria,
    },
}

/// The reported operating system; blank if none was reported.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
struct OsFound {
    #[serde(rename = "type")]
    os_type: String,
    version: String,
}

/// The reported process.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ProcessFound {
    os_type: OsType,
    path: String,
    is_running: bool,
    hash: String,
    signer_fingerprints: Vec<String>,
}

impl ProcessFound {
    fn new(os_type: OsType, path: &str, process: &Process) -> Self {
        let Process {
            is_running,
            hash,
            signers,
        } = process.clone();
        Self {
            os_type,
            path: path.to_owned(),
            is_running,
            hash,
            signer_fingerprints: signers,
        }
    }
}

/// The state of a one-time code.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CodeFound {
    passed_mfa: bool,
    passed_on_unlock: bool,
    passed_on_wake: bool,
    timed_out: bool,
}

impl CodeFound {
    fn of(
        CodeState {
            passed,
            timed_out,
            since_wake,
            since_unlock,
        }: CodeState,
    ) -> Self {
        Self {
            passed_mfa: passed,
            passed_on_unlock: since_unlock,
            passed_on_wake: since_wake,
            timed_out,
        }
    }
}

/// The times by which a one-time code was judged.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Criteria {
    passed_mfa_at: Option<Timestamp>,
    woken_at: Option<Timestamp>,
    unlocked_at: Option<Timestamp>,
    timeout_seconds: i64,
    timeout_remaining_seconds: i64,
}

impl Criteria {
    fn of(timeout: i64, evidence: &Evidence) -> Self {
        let SessionMfaState {
            passed_at,
            woken_at,
            unlocked_at,
        } = evidence.mfa_state;
        let remaining = passed_at.map_or(0, |at| seconds_left(timeout, at, evidence.now));
        let shown = |time: Option<CalendarTime>| time.map(|time| time.shown);
        Self {
            passed_mfa_at: shown(passed_at),
            woken_at: shown(woken_at),
            unlocked_at: shown(unlocked_at),
            timeout_seconds: timeout,
            timeout_remaining_seconds: if timeout > 0 { remaining } else { FOREVER },
        }
    }
}

impl FailureReason {
    fn of(demand: &PostureRequirement, check: &str, evidence: &Evidence) -> Self {
        let endpoint = &evidence.endpoint;
        match demand.clone() {
            PostureRequirement::Os { operating_systems } => {
                let found = endpoint.os.as_ref().map(|os| OsFound {
                    os_type: os.what.os_type.clone(),
                    version: os.what.version.clone(),
                });
                Self::Os {
                    actual_value: found.unwrap_or_default(),
                    expected_value: operating_systems,
                }
            }
            PostureRequirement::Domain { domains } => {
                let found = endpoint.domain.as_ref().map(|domain| domain.what.clone());
                Self::Domain {
                    actual_value: found.unwrap_or_default(),
                    expected_value: domains,
                }
            }
            PostureRequirement::Mac { mac_addresses } => {
                let found = endpoint
                    .addresses
                    .as_ref()
                    .map(|addresses| addresses.what.clone());
                Self::Mac {
                    actual_value: found.unwrap_or_default(),
                    expected_value: mac_addresses,
                }
            }
            PostureRequirement::Process { process } => {
                let found = endpoint.process_for(check).cloned().unwrap_or_default();
                Self::Process {
                    actual_value: ProcessFound::new(process.os_type, &process.path, &found),
                    expected_value: process,
                }
            }
            PostureRequirement::ProcessMulti {
                semantic,
                processes,
            } => {
                let found = |wanted: &ProcessMulti| {
                    endpoint
                        .process_at(&wanted.path)
                        .map(|seen| ProcessFound::new(wanted.os_type, &wanted.path, seen))
                };
                Self::ProcessMulti {
                    actual_value: processes.iter().filter_map(found).collect(),
                    expected_value: processes,
                    semantic,
                }
            }
            PostureRequirement::Mfa {
                timeout_seconds,
                prompt_on_wake,
                prompt_on_unlock,
                ..
            } => {
                let expected_value = CodeFound {
                    passed_mfa: true,
                    passed_on_unlock: prompt_on_unlock,
                    passed_on_wake: prompt_on_wake,
                    timed_out: false,
                };
                Self::Mfa {
                    actual_value: CodeFound::of(CodeState::of(demand, evidence)),
                    expected_value,
                    criteria: Criteria::of(timeout_seconds, evidence),
                }
            }
        }
    }
}
