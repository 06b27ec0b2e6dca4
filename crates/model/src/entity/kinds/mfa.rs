//! MFA: the second factor of an identity, one-time codes and recovery codes.

use query::Type;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{
    ApiSession, Entity, Field, Id, Identity, Kind, Logged, Lookup, OnDelete, Record, Reference,
    Stateful, Stored, kind::unreadable,
};
use crate::error::Result;

/// The second factor of one identity. Requests do not write it directly.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mfa {
    pub identity_id: Id<Identity>,
    /// The shared secret and the recovery codes, sealed (`authentication/codes.rs` of the crate
    /// `policy`).
    pub sealed: Vec<u8>,
    /// Whether a code was entered since it was set up. Before that, no code is required.
    pub is_verified: bool,
}

/// The part of a record that only code sets.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct State {
    /// The codes that were used; entries too old to be accepted are dropped.
    pub used: Vec<UsedCode>,
}

/// A used code: its time step, its session and its purpose.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UsedCode {
    /// Half minutes since 1970.
    pub step: u64,
    pub session: Id<ApiSession>,
    pub purpose: CodePurpose,
}

/// What a code is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CodePurpose {
    /// To prove that an app has the secret.
    Verify,
    /// To complete a session.
    Enter,
    /// To read the recovery codes.
    Show,
    /// To make new recovery codes.
    Renew,
    /// To remove the second factor.
    Remove,
}

impl CodePurpose {
    /// Whether a one-time code that was already used (`used`) may be used again for this purpose in
    /// a session. One code completes one session. Established clients also reuse a code in these
    /// ways, which stay possible: a code that verified an app may complete another session, read
    /// and renew the recovery codes; a code that completed a session may remove the second factor
    /// in it. Remaining risk: a code that was observed in use lets a holder of another complete
    /// session of the same identity read the recovery codes.
    pub fn may_use(self, session: &Id<ApiSession>, used: &[&UsedCode]) -> bool {
        let fits = |used: &UsedCode| {
            let is_own = used.session == *session;
            match self {
                Self::Verify => false,
                Self::Enter => used.purpose == Self::Verify && !is_own,
                Self::Show => is_own || matches!(used.purpose, Self::Verify | Self::Enter),
                Self::Renew => is_own && matches!(used.purpose, Self::Verify | Self::Show),
                Self::Remove => {
                    used.purpose == Self::Verify || (is_own && used.purpose == Self::Enter)
                }
            }
        };
        used.iter().all(|used| fits(used))
    }
}

/// The state as stored in version 1, which only had codes that completed sessions.
#[derive(Deserialize)]
struct StateOfEntries {
    used: Vec<Entered>,
}

#[derive(Deserialize)]
struct Entered {
    step: u64,
    session: Id<ApiSession>,
}

impl From<StateOfEntries> for State {
    fn from(StateOfEntries { used }: StateOfEntries) -> Self {
        let used = used.into_iter().map(|Entered { step, session }| UsedCode {
            step,
            session,
            purpose: CodePurpose::Enter,
        });
        Self {
            used: used.collect(),
        }
    }
}

/// A second factor in responses to its owner.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DetailMfa")]
pub struct View {
    is_verified: bool,
    /// The URL for the authenticator app; only until a code was entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_url: Option<String>,
    /// Only until a code was entered.
    pub recovery_codes: Option<Vec<String>>,
}

impl Stateful for Mfa {
    type State = State;
}

impl Entity for Mfa {
    const KIND: Kind = Kind {
        name: "mfa",
        path: "mfas",
        noun: "one-time code setup",
    };
    const FIELDS: &'static [Field<Self>] = &[Field::inner_unique("identity", Type::Text, |r| {
        r.spec.identity_id.as_str().into()
    })];
    const REFERENCES: &'static [Reference<Self>] = &[Reference::to::<Identity>(
        "identity",
        |r| vec![r.spec.identity_id.as_str()],
        OnDelete::Cascade,
    )];
    const LOGGED: Logged = Logged::Changes {
        secret: &["/sealed"],
        quiet: &["used"],
    };
    const VERSION: u8 = 2;
    type View = View;

    fn upgrade(version: u8, old: &mut impl Stored) -> Result<(Self, State)> {
        if version != 1 {
            return Err(unreadable(version));
        }
        old.read::<Self, StateOfEntries>(Self::ENCODING)
            .map(|(spec, state)| (spec, state.into()))
    }

    /// The secrets are left out; a caller with the key adds them.
    fn view(record: &Record<Self>, _: &dyn Lookup) -> Result<View> {
        Ok(View {
            is_verified: record.spec.is_verified,
            provisioning_url: None,
            recovery_codes: None,
        })
    }
}
