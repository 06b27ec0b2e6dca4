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

/// The classes of rows. Each has bounds and a chain of its own, so that rows of one never displace
/// rows of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HistoryClass {
    /// What administrators, the host and the controller changed, enrollments, and the access that
    /// it gave and took.
    Changes,
    /// What clients cause without any right to change something, as often as they like: log-ins and
    /// log-outs, refusals, routers and hosts that come and go, and changes of their own
    /// credentials.
    Sessions,
}

impl HistoryClass {
    /// Both classes.
    pub const ALL: [Self; 2] = [Self::Changes, Self::Sessions];

    /// The other class.
    pub fn other(self) -> Self {
        match self {
            Self::Changes => Self::Sessions,
            Self::Sessions => Self::Changes,
        }
    }

    /// The name, as metrics show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Changes => "changes",
            Self::Sessions => "sessions",
        }
    }
}

impl Action {
    /// The class of a row about this action; `by_client` if a client did it that has no right to
    /// change anything but what is its own.
    pub fn class(self, by_client: bool) -> HistoryClass {
        match self {
            Self::Create | Self::Update | Self::Delete if by_client => HistoryClass::Sessions,
            Self::Create | Self::Update | Self::Delete | Self::Access => HistoryClass::Changes,
            Self::Login
            | Self::Logout
            | Self::Refusal
            | Self::Lockout
            | Self::Connect
            | Self::Disconnect => HistoryClass::Sessions,
        }
    }

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
