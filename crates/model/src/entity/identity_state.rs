//! The part of an identity that only code sets.

use serde::{Deserialize, Serialize};

use super::{Config, EnvInfo, Id, SdkInfo, Service};
use crate::clock::Timestamp;

/// The type of an identity: the id of an identity type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdentityKind {
    #[default]
    Default,
    /// The tunneler of the edge router with the same id.
    Router,
}

/// The part of a record that only code sets.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    pub is_default_admin: bool,
    pub kind: IdentityKind,
    pub disabled_at: Option<Timestamp>,
    /// If absent, the identity is disabled until an administrator enables it.
    pub disabled_until: Option<Timestamp>,
    pub(crate) env_info: EnvInfo,
    pub sdk_info: SdkInfo,
    pub service_configs: Vec<Override>,
}

/// A config that the identity sees in a service instead of the service's own config of that type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    pub service: Id<Service>,
    pub config: Id<Config>,
}

impl IdentityKind {
    /// The id and name of the identity type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "Default",
            Self::Router => "Router",
        }
    }
}

impl State {
    /// Whether it may not log in at this time.
    pub fn is_disabled(&self, now: Timestamp) -> bool {
        self.disabled_at.is_some() && self.disabled_until.is_none_or(|until| now < until)
    }

    /// Stores what software reports at a log-in, where it reports something. Returns whether that
    /// is new.
    pub fn note(&mut self, env_info: Option<EnvInfo>, sdk_info: Option<SdkInfo>) -> bool {
        let env = env_info
            .filter(|info| *info != self.env_info)
            .map(|info| self.env_info = info);
        let sdk = sdk_info
            .filter(|info| *info != self.sdk_info)
            .map(|info| self.sdk_info = info);
        env.is_some() || sdk.is_some()
    }
}
