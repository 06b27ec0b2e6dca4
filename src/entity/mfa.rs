//! MFA: the second factor of an identity, one-time codes and recovery codes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApiSession, Entity, Facts, Field, Id, Identity, Kind, Logged, OnDelete, Record, Reference};
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
    /// The codes of these moments let a session in, each one session; older ones than count any more are dropped.
    pub used: Vec<Used>,
}

/// The code of a moment, and the session it let in.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Used {
    /// Half minutes since 1970.
    pub step: u64,
    pub session: Id<ApiSession>,
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

impl Entity for Mfa {
    const KIND: Kind = Kind { name: "mfa", path: "mfas" };
    const FIELDS: &'static [Field<Self>] = &[Field::inner_unique("identity", Type::Text, |r| r.spec.identity_id.as_str().into())];
    const REFERENCES: &'static [Reference<Self>] =
        &[Reference::to::<Identity>("identity", |r| vec![r.spec.identity_id.as_str()], OnDelete::Cascade)];
    const LOGGED: Logged = Logged::Changes { secret: &["/sealed"], quiet: &["used"] };
    type State = State;
    type View = View;

    /// Without the secrets: whoever has the key adds them.
    fn view(record: &Record<Self>, _: &dyn Facts) -> Result<View> {
        Ok(View { is_verified: record.spec.is_verified, provisioning_url: None, recovery_codes: None })
    }
}
