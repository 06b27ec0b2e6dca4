//! Parts of an identity as clients see it: its credentials and its outstanding enrollments.

use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Authenticator, Ca, Enrollment, EntityRef, Id, Lookup, Record, TypedLookup,
    authenticator::Credential, enrollment::Method,
};
use crate::{clock::Timestamp, error::Result};

/// The credentials of an identity, at most one of each kind.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "IdentityAuthenticators")]
pub(crate) struct Credentials {
    #[serde(skip_serializing_if = "Option::is_none")]
    cert: Option<Certificate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updb: Option<Password>,
}

/// A client certificate.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "IdentityAuthenticatorsCert")]
struct Certificate {
    id: Id<Authenticator>,
    fingerprint: String,
}

/// User name and password.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "IdentityAuthenticatorsUpdb")]
struct Password {
    id: Id<Authenticator>,
    username: String,
}

impl Credentials {
    /// The credentials of one identity.
    ///
    /// # Errors
    /// One cannot be read.
    pub(crate) fn of(identity: &str, lookup: &dyn Lookup) -> Result<Self> {
        let mut own = Self::default();
        for Record { id, spec, .. } in lookup.linked::<Authenticator>("identity", identity)? {
            match spec.credential {
                Credential::Cert { fingerprint, .. } => {
                    own.cert = Some(Certificate { id, fingerprint })
                }
                Credential::Updb { username, .. } => own.updb = Some(Password { id, username }),
            }
        }
        Ok(own)
    }
}

/// The unused enrollments of an identity, at most one of each method.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "IdentityEnrollments")]
pub(crate) struct Outstanding {
    #[serde(skip_serializing_if = "Option::is_none")]
    ott: Option<Ticket>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ottca: Option<Ticket>,
    #[serde(skip_serializing_if = "Option::is_none")]
    updb: Option<Ticket>,
}

/// One unused enrollment.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "IdentityEnrollment")]
struct Ticket {
    id: Id<Enrollment>,
    token: String,
    jwt: String,
    expires_at: Timestamp,
    /// Only for `ottca`: the CA that must have issued the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<EntityRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_id: Option<Id<Ca>>,
}

impl Outstanding {
    /// The unused enrollments of one identity.
    ///
    /// # Errors
    /// One cannot be read.
    pub(crate) fn of(identity: &str, lookup: &dyn Lookup) -> Result<Self> {
        let mut own = Self::default();
        for Record {
            id,
            spec:
                Enrollment {
                    method,
                    token,
                    jwt,
                    expires_at,
                    ca_id,
                    ..
                },
            ..
        } in lookup.linked("identity", identity)?
        {
            let ca = ca_id
                .as_ref()
                .map(|id| lookup.get(id))
                .transpose()?
                .map(|ca| EntityRef::of(&ca, &ca.spec.name));
            let ticket = Some(Ticket {
                id,
                token,
                jwt,
                expires_at,
                ca,
                ca_id,
            });
            match method {
                Method::Ott => own.ott = ticket,
                Method::OttCa => own.ottca = ticket,
                Method::Updb => own.updb = ticket,
                Method::ErOtt | Method::TrOtt => {}
            }
        }
        Ok(own)
    }
}
