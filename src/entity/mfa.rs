//! MFA: the second factor of an identity, one-time codes and recovery codes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ApiSession, Entity, Facts, Field, Id, Identity, Kind, Logged, OnDelete, Record, Reference, Stateful, Stored, kind::unreadable,
};
use crate::{error::Result, query::Type};

/// The second factor of one identity. No request writes it as such.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mfa {
    pub identity_id: Id<Identity>,
    /// The shared secret and the recovery codes, sealed (`authentication/codes.rs`).
    pub sealed: Vec<u8>,
    /// Whether a code was given since it was set up. Before, it is not asked for.
    pub is_verified: bool,
}

/// What only code sets.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct State {
    /// The codes of these moments were used; older ones than count any more are dropped.
    pub used: Vec<Used>,
}

/// The code of a moment, and what it was used for in which session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Used {
    /// Half minutes since 1970.
    pub step: u64,
    pub session: Id<ApiSession>,
    pub purpose: Purpose,
}

/// What a code is shown for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// To prove that an app has the secret.
    Verify,
    /// To complete a session.
    Enter,
    /// To see the recovery codes.
    Show,
    /// To make new recovery codes.
    Renew,
    /// To remove the second factor.
    Remove,
}

impl Purpose {
    /// Whether the one-time code of a moment, which was used for this and that, may still be used for this in a session. One code completes
    /// one session. What established clients do with one code beyond that stays possible: whoever verifies an app with a code completes
    /// another session, sees and renews the recovery codes with it; whoever completes a session with it removes the second factor with it.
    /// What that leaves open: a code that somebody else has seen in use shows the recovery codes to whoever has a complete session of the
    /// same identity already.
    pub fn may_use(self, session: &Id<ApiSession>, used: &[&Used]) -> bool {
        let fits = |used: &Used| {
            let is_own = used.session == *session;
            match self {
                Self::Verify => false,
                Self::Enter => used.purpose == Self::Verify && !is_own,
                Self::Show => is_own || matches!(used.purpose, Self::Verify | Self::Enter),
                Self::Renew => is_own && matches!(used.purpose, Self::Verify | Self::Show),
                Self::Remove => used.purpose == Self::Verify || (is_own && used.purpose == Self::Enter),
            }
        };
        used.iter().all(|used| fits(used))
    }
}

/// As version 1 stored it: only codes that let a session in.
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
        let used = used.into_iter().map(|Entered { step, session }| Used { step, session, purpose: Purpose::Enter });
        Self { used: used.collect() }
    }
}

/// A second factor as its owner sees it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DetailMfa")]
pub struct View {
    is_verified: bool,
    /// What the app reads; only until a code was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioning_url: Option<String>,
    /// Only until a code was given.
    pub recovery_codes: Option<Vec<String>>,
}

impl Stateful for Mfa {
    type State = State;
}

impl Entity for Mfa {
    const KIND: Kind = Kind { name: "mfa", path: "mfas" };
    const FIELDS: &'static [Field<Self>] = &[Field::inner_unique("identity", Type::Text, |r| r.spec.identity_id.as_str().into())];
    const REFERENCES: &'static [Reference<Self>] =
        &[Reference::to::<Identity>("identity", |r| vec![r.spec.identity_id.as_str()], OnDelete::Cascade)];
    const LOGGED: Logged = Logged::Changes { secret: &["/sealed"], quiet: &["used"] };
    const VERSION: u8 = 2;
    type View = View;

    fn upgrade(version: u8, old: &mut impl Stored) -> Result<(Self, State)> {
        if version != 1 {
            return Err(unreadable(version));
        }
        old.read::<Self, StateOfEntries>(Self::DISK).map(|(spec, state)| (spec, state.into()))
    }

    /// Without the secrets: whoever has the key adds them.
    fn view(record: &Record<Self>, _: &dyn Facts) -> Result<View> {
        Ok(View { is_verified: record.spec.is_verified, provisioning_url: None, recovery_codes: None })
    }
}
