//! Session certificates: short-lived client certificates that edge routers accept as long as their
//! API session lasts.

use query::Type;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entity::{
    ApiSession, Entity, Field, Id, Kind, Logged, Lookup, OnDelete, Record, Reference, Stateful,
    value::other_certificate,
};
use crate::{clock::Timestamp, error::Result};

/// A certificate that was issued to the holder of an API session. Requests do not write it
/// directly.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionCertificate {
    pub api_session_id: Id<ApiSession>,
    /// A distinguished name in the format of RFC 2253.
    pub subject: String,
    pub fingerprint: String,
    /// As PEM.
    pub certificate: String,
    pub valid_from: Timestamp,
    pub valid_to: Timestamp,
}

/// A session certificate in responses to its owner.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "CurrentApiSessionCertificateDetail")]
pub struct View {
    certificate: String,
    fingerprint: String,
    subject: String,
    valid_from: Timestamp,
    valid_to: Timestamp,
}

impl Stateful for SessionCertificate {
    type State = ();
}

impl Entity for SessionCertificate {
    const KIND: Kind = Kind {
        name: "apiSessionCertificate",
        path: "current-api-session/certificates",
        noun: "session certificate",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::indexed("apiSession", Type::Text, |r| {
            r.spec.api_session_id.as_str().into()
        }),
        Field::plain("subject", Type::Text, |r| (&r.spec.subject).into()),
        Field::indexed("fingerprint", Type::Text, |r| (&r.spec.fingerprint).into()),
    ];
    const REFERENCES: &'static [Reference<Self>] = &[Reference::to::<ApiSession>(
        "apiSession",
        |r| vec![r.spec.api_session_id.as_str()],
        OnDelete::Cascade,
    )];
    const ENDS_BY: &'static [&'static str] = &["apiSession", "fingerprint"];
    const LOGGED: Logged = Logged::Nothing;
    type View = View;

    fn flaw(record: &Record<Self>) -> Option<&'static str> {
        other_certificate(&record.spec.fingerprint, &record.spec.certificate)
    }

    fn view(record: &Record<Self>, _: &dyn Lookup) -> Result<View> {
        let Self {
            subject,
            fingerprint,
            certificate,
            valid_from,
            valid_to,
            ..
        } = record.spec.clone();
        Ok(View {
            certificate,
            fingerprint,
            subject,
            valid_from,
            valid_to,
        })
    }
}
