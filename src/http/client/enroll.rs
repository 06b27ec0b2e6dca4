//! POST /enroll: the one path by which every client redeems its token, whatever it sends.

use std::sync::Arc;

use actix_web::web::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use crate::{
    enrollment::{self, Issued, Request},
    error::{Error, Refusal, Result},
    http::{
        answer::{Answer, Reply, Shown},
        argument::{Argument, Query},
        body::Incoming,
        call::Call,
        operation::{BodyShape, JSON, Operation, Schemas},
    },
};

/// What clients send certificate requests as.
const MEDIA: [&str; 4] = ["application/pkcs10", JSON, "application/x-pem-file", "text/plain"];

/// What to enroll.
#[derive(Deserialize, JsonSchema)]
pub struct Redeem {
    /// The one-time token.
    #[serde(default)]
    token: Option<String>,
    /// What clients say the method is; the enrollment knows.
    #[serde(default)]
    #[allow(dead_code, reason = "part of the interface, and decided by the enrollment")]
    method: Option<String>,
}

/// A body of any of the media types, not read yet.
pub struct Sent {
    media: String,
    body: Bytes,
}

impl Argument for Sent {
    fn describe(operation: &mut Operation) -> Result<()> {
        let schema = Arc::new(serde_json::json!({ "type": "object" }));
        operation.body = Some(BodyShape {
            name: "enrollment".into(),
            required: false,
            media: &MEDIA,
            schema,
            checker: None,
            title: None,
            judged_by_function: true,
        });
        operation.errors.extend([400, 404, 409]);
        Ok(())
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        let sent = incoming.header("content-type").unwrap_or_default();
        let media = sent.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let known = MEDIA.contains(&media.as_str());
        if !known && !incoming.body.is_empty() {
            let shown = if sent.is_empty() { "application/octet-stream" } else { sent };
            return Err(Error::invalid("Content-Type", "is not taken here", shown));
        }
        if !known && !media.is_empty() {
            return Err(Error::Refused(Refusal::InvalidContentType));
        }
        Ok(Self { media, body: incoming.body.clone() })
    }
}

impl Sent {
    /// The certificate request, if that is what was sent.
    fn csr(&self) -> Result<String> {
        if self.media == JSON {
            let json: serde_json::Value = serde_json::from_slice(&self.body).map_err(|e| Error::Unparseable(e.to_string()))?;
            return if json.is_object() { Ok(String::new()) } else { Err(Error::Unparseable("not an object".into())) };
        }
        String::from_utf8(self.body.to_vec()).map_err(|_| Error::Refused(Refusal::CouldNotProcessCsr))
    }
}

/// The certificates, always as JSON: every client takes that.
pub struct Enrolled(Issued);

impl Answer for Enrolled {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Shown::<Issued>::describe(operation, schemas);
        if let Some(answer) = &mut operation.answer {
            answer.content.push(("application/x-pem-file", Some(serde_json::json!({ "type": "string" }))));
        }
    }
    fn reply(self) -> Result<Reply> {
        Shown(self.0).reply()
    }
}

/// POST /enroll
pub async fn enroll(call: Call, Query(wanted): Query<Redeem>, sent: Sent) -> Result<Enrolled> {
    let token = wanted.token.filter(|token| !token.is_empty());
    if let Some(token) = &token
        && Uuid::try_parse(token).is_err()
    {
        return Err(Error::invalid("token", "must be a UUID", token));
    }
    let csr = sent.csr()?;
    let token = token.ok_or(Error::Refused(Refusal::InvalidEnrollmentToken))?;
    enrollment::redeem(&call.changes, call.holdings.clone(), Request { token, csr }).await.map(Enrolled)
}
