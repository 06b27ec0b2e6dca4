//! The types of obstacles to the use of a service, and of the requests that remove them.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;

/// Something that prevents the use of the service.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Obstacle {
    /// What kind of obstacle it is.
    pub(crate) what: ObstacleKind,
    /// Whether it blocks the right or the traffic.
    pub(crate) concerns: Concern,
    /// The obstacle in plain English.
    pub(crate) text: String,
    /// Requests of which any one removes it, smallest first. With `remedy`, that is necessary as
    /// well.
    pub(crate) edits: Vec<SuggestedEdit>,
    /// The same requests as commands, in the same order, with names in place of ids.
    pub(crate) commands: Vec<String>,
    /// What to do, if no request alone removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<String>,
}

impl Obstacle {
    pub(super) fn new(what: ObstacleKind, text: String, edits: Vec<SuggestedEdit>) -> Self {
        Self {
            what,
            concerns: what.concerns(),
            text,
            edits,
            commands: Vec::new(),
            remedy: None,
        }
    }

    pub(super) fn with_remedy(self, remedy: String) -> Self {
        Self {
            remedy: Some(remedy),
            ..self
        }
    }
}

/// What obstacles prevent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ObstacleConcern")]
pub(crate) enum Concern {
    /// The identity may not.
    Rights,
    /// It has the right, but traffic cannot flow now.
    Traffic,
}

/// The kinds of obstacle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ObstacleKind {
    Disabled,
    NoCredential,
    /// It has credentials, but the auth policy, or the certificate authority that issued its
    /// certificate, allows none of them.
    CredentialNotAllowed,
    /// A required second factor cannot be given.
    SecondFactor,
    NoPolicy,
    Posture,
    NoEdgeRouter,
    IdentityWithoutRouter,
    ServiceWithoutRouter,
    NoCommonRouter,
    RouterNotConnected,
    /// The service has terminators, all on routers that are not connected.
    TerminatorNotReachable,
    /// Routers of the identity and of the hosts are connected, and no links lead from one to the
    /// other.
    NoPath,
    /// Identities may bind the service, and none does.
    NoHost,
    /// Nobody binds the service, and no identity may.
    NoTerminator,
    /// The last dial of each host failed.
    DialsFail,
}

impl ObstacleKind {
    fn concerns(self) -> Concern {
        match self {
            Self::RouterNotConnected | Self::TerminatorNotReachable | Self::NoPath => {
                Concern::Traffic
            }
            Self::NoHost | Self::NoTerminator | Self::DialsFail => Concern::Traffic,
            Self::Disabled
            | Self::NoCredential
            | Self::CredentialNotAllowed
            | Self::SecondFactor => Concern::Rights,
            Self::NoPolicy | Self::Posture | Self::NoEdgeRouter => Concern::Rights,
            Self::IdentityWithoutRouter | Self::ServiceWithoutRouter | Self::NoCommonRouter => {
                Concern::Rights
            }
        }
    }
}

/// A request to the management interface.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct SuggestedEdit {
    pub(crate) method: &'static str,
    /// The path below the base path of the management interface.
    pub(crate) path: String,
    pub(crate) body: Json,
    /// The request in plain English.
    pub(crate) text: String,
}
