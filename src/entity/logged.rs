//! What the history tells of a kind's records.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the history tells of a kind's records.
pub enum Logged {
    /// Every change, with the members that it changed.
    Changes {
        /// JSON pointers to members that no row may show.
        secret: &'static [&'static str],
        /// Members that no row shows; a change of nothing else leaves no row.
        quiet: &'static [&'static str],
    },
    /// That a record comes, and that it goes.
    Visits {
        comes: Action,
        goes: Action,
        /// The members that rows show; no others.
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
    /// Credentials were wrong, or a caller had no right to what it asked for, over REST or at the router.
    Refusal,
    /// An identity was disabled for its many wrong passwords.
    Lockout,
    /// Somebody may use something since, or may not any more, by a change that an earlier row tells of.
    Access,
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
        }
    }
}
