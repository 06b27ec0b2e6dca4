//! MFA: the second factor of an identity, one-time codes and recovery codes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Entity, Facts, FactsExt, Field, Id, Identity, Kind, OnDelete, Record, Reference};
use crate::{error::Result, query::Type};

/// Who the codes are for, in the eyes of an authenticator app.
const ISSUER: &str = "openziti.io";

/// The second factor of one identity. No request writes it as such, and nothing prints it.
#[derive(Clone, Serialize, Deserialize)]
pub struct Mfa {
    pub identity_id: Id<Identity>,
    /// Shared with the app, in base 32 without padding.
    pub secret: String,
    /// Each stands for a code once.
    pub recovery_codes: Vec<String>,
    /// Whether a code was given since it was set up. Before, it is not asked for.
    pub is_verified: bool,
}

/// A second factor as its owner sees it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DetailMfa")]
pub struct View {
    is_verified: bool,
    /// What the app reads; only until a code was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    provisioning_url: Option<String>,
    /// Only until a code was given.
    recovery_codes: Option<Vec<String>>,
}

impl Entity for Mfa {
    const KIND: Kind = Kind { name: "mfa", path: "mfas" };
    const FIELDS: &'static [Field<Self>] = &[Field::inner_unique("identity", Type::Text, |r| r.spec.identity_id.as_str().into())];
    const REFERENCES: &'static [Reference<Self>] =
        &[Reference::to::<Identity>("identity", |r| vec![r.spec.identity_id.as_str()], OnDelete::Cascade)];
    type State = ();
    type View = View;

    fn view(record: &Record<Self>, facts: &dyn Facts) -> Result<View> {
        let Self { identity_id, secret, recovery_codes, is_verified } = &record.spec;
        if *is_verified {
            return Ok(View { is_verified: true, provisioning_url: None, recovery_codes: None });
        }
        let name = escaped(&facts.get(identity_id)?.spec.name);
        let url = format!("otpauth://totp/{ISSUER}:{name}?issuer={ISSUER}&secret={secret}");
        Ok(View { is_verified: false, provisioning_url: Some(url), recovery_codes: Some(recovery_codes.clone()) })
    }
}

/// A text for a path of a URL: everything but letters, digits and `-._~` by its bytes (RFC 3986, section 2.1).
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut url, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => url.push(char::from(byte)),
            _ => url.push_str(&format!("%{byte:02X}")),
        }
        url
    })
}
