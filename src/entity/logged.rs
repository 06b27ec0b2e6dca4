//! Which actions the history logs, and what it logs of a kind's records.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the history logs of a kind's records.
pub enum Logged {
    /// Every change, with the changed members.
    Changes {
        /// JSON pointers to members whose values are replaced by [`SECRET`].
        secret: &'static [&'static str],
        /// Members that are not logged; a change of only these leaves no row.
        quiet: &'static [&'static str],
    },
    /// Creation and deletion only.
    Visits {
        comes: Action,
        goes: Action,
        /// The members that rows show.
        shown: &'static [&'static str],
    },
    /// Nothing: these records only serve those of another kind.
    Nothing,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "HistoryAction")]
pub enum Action {
    Create,
    Update,
    Delete,
    Login,
    Logout,
    /// Wrong credentials, or a caller without the required right, over REST or at the router.
    Refusal,
    /// An identity was disabled because of too many wrong passwords.
    Lockout,
    /// Access was gained or lost by a change in an earlier row.
    Access,
    /// A router connected.
    Connect,
    /// A router disconnected and was not back soon.
    Disconnect,
}

impl Action {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Login => "login",
            Self::Logout => "logout",
            Self::Refusal => "refusal",
            Self::Lockout => "lockout",
            Self::Access => "access",
            Self::Connect => "connect",
            Self::Disconnect => "disconnect",
        }
    }
}
