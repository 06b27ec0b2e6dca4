//! The state of an identity's endpoints, and its service requests that failed posture checks.

use std::collections::BTreeMap;

use model::{
    clock::{CalendarTime, Timestamp},
    entity::{
        ApiSession, Id, Identity, SdkInfo, TypedLookup,
        endpoint_info::Filled,
        endpoint_report::{Answered, Process},
    },
    error::Result,
};
use policy::posture::{FailedRequest, IdentityPosture, SessionMfaState};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{answer::Data, call::Call};

/// What the endpoints of an identity have reported last.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PostureData {
    mac: Slot<Addresses>,
    domain: Slot<Domain>,
    os: Slot<Os>,
    /// One per answered posture check.
    processes: Vec<Slot<ProcessFound>>,
    /// By API session id.
    api_session_posture_data: BTreeMap<String, SessionData>,
}

/// An answer, and the posture check that it was given for.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PostureData{T}")]
struct Slot<T> {
    last_updated_at: Option<Timestamp>,
    posture_check_id: String,
    /// Always false: stored answers do not expire.
    timed_out: bool,
    #[serde(flatten)]
    what: T,
}

impl<T: Default> Slot<T> {
    fn new<A: Clone>(answer: Option<&Answered<A>>, shown: impl FnOnce(A) -> T) -> Self {
        let (last_updated_at, check) = answer
            .map(|answer| (answer.at, answer.check.clone()))
            .unzip();
        let what = answer
            .map(|answer| shown(answer.what.clone()))
            .unwrap_or_default();
        Self {
            last_updated_at,
            posture_check_id: check.unwrap_or_default(),
            timed_out: false,
            what,
        }
    }
}

#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "Mac")]
struct Addresses {
    addresses: Option<Vec<String>>,
}

#[derive(Default, Serialize, JsonSchema)]
struct Domain {
    domain: Option<String>,
}

#[derive(Default, Serialize, JsonSchema)]
struct Os {
    #[serde(rename = "type")]
    os_type: Option<String>,
    version: Option<String>,
    build: Option<String>,
}

#[derive(Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Process")]
struct ProcessFound {
    binary_hash: String,
    is_running: bool,
    signer_fingerprints: Vec<String>,
}

/// The state of one API session.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ApiSessionPostureData")]
struct SessionData {
    mfa: PassedMfa,
    endpoint_state: EndpointState,
    sdk_info: Filled<SdkInfo>,
}

/// Whether and when a one-time code was given.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PostureDataMfa")]
struct PassedMfa {
    api_session_id: String,
    passed_mfa: bool,
    passed_at: Option<Timestamp>,
    /// Whether it was given after the endpoint last woke up; null before any.
    passed_on_wake: Option<bool>,
    /// Whether it was given after the endpoint was last unlocked; null before any.
    passed_on_unlock: Option<bool>,
}

/// The last events of the endpoint.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PostureDataEndpointState")]
struct EndpointState {
    woken_at: Option<Timestamp>,
    unlocked_at: Option<Timestamp>,
}

impl SessionData {
    fn new(id: &str, presence: SessionMfaState, sdk: &SdkInfo) -> Self {
        let SessionMfaState {
            passed_at,
            woken_at,
            unlocked_at,
        } = presence;
        let since = |event: Option<CalendarTime>| {
            passed_at.map(|passed| event.is_none_or(|at| at <= passed))
        };
        let shown = |time: Option<CalendarTime>| time.map(|time| time.shown);
        let mfa = PassedMfa {
            api_session_id: id.to_owned(),
            passed_mfa: passed_at.is_some(),
            passed_at: shown(passed_at),
            passed_on_wake: since(woken_at),
            passed_on_unlock: since(unlocked_at),
        };
        Self {
            mfa,
            endpoint_state: EndpointState {
                woken_at: shown(woken_at),
                unlocked_at: shown(unlocked_at),
            },
            sdk_info: Filled(sdk.clone()),
        }
    }
}

/// GET /identities/{id}/posture-data. The answer for an unknown identity is empty.
pub(crate) async fn data(call: Call, id: Id<Identity>) -> Result<Data<PostureData>> {
    let endpoint = call.state.posture.endpoint(id.as_str());
    let known = endpoint.clone();
    let sessions = call.state.store.scan(move |tx| {
        let sdk = tx
            .find(&id)?
            .map(|identity| identity.state.sdk_info)
            .unwrap_or_default();
        let sessions = tx.linked::<ApiSession>("identity", id.as_str())?;
        let shown = sessions.into_iter().map(|session| {
            let presence = known
                .sessions
                .get(session.id.as_str())
                .copied()
                .unwrap_or_default();
            (
                session.id.to_string(),
                SessionData::new(session.id.as_str(), presence, &sdk),
            )
        });
        Ok(shown.collect())
    });
    let api_session_posture_data = sessions.await?;
    let IdentityPosture {
        os,
        domain,
        addresses,
        processes,
        ..
    } = endpoint.as_ref();
    let process = |Process {
                       is_running,
                       hash,
                       signers,
                   }| ProcessFound {
        binary_hash: hash,
        is_running,
        signer_fingerprints: signers,
    };
    Ok(Data(PostureData {
        mac: Slot::new(addresses.as_ref(), |addresses| Addresses {
            addresses: Some(addresses),
        }),
        domain: Slot::new(domain.as_ref(), |domain| Domain {
            domain: Some(domain),
        }),
        os: Slot::new(os.as_ref(), |os| Os {
            os_type: Some(os.os_type),
            version: Some(os.version),
            build: Some(os.build),
        }),
        processes: processes
            .iter()
            .map(|answer| Slot::new(Some(answer), process))
            .collect(),
        api_session_posture_data,
    }))
}

/// GET /identities/{id}/failed-service-requests, oldest first. Empty for an unknown identity.
pub(crate) async fn failures(call: Call, id: Id<Identity>) -> Result<Data<Vec<FailedRequest>>> {
    Ok(Data(
        call.state
            .posture
            .failures(id.as_str())
            .iter()
            .map(|failed| failed.as_ref().clone())
            .collect(),
    ))
}
