//! POST /enroll: the common path of all enrollment methods.

use std::sync::Arc;

use model::error::{Error, Refusal, Result};
use policy::enrollment::{self, EnrollmentRequest, Issued, Request};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use uuid::Uuid;

use crate::{
    answer::{Answer, Data, Reply},
    body::{self, Incoming},
    call::Call,
    extractor::{Extractor, Query},
    media_type::{essence, not_taken},
    openapi::operation::{BodyShape, JSON, Operation, Schemas},
    unknown_members::{report, unknown},
};

/// The media types of enrollment bodies.
const MEDIA: [&str; 4] = [
    "application/pkcs10",
    JSON,
    "application/x-pem-file",
    "text/plain",
];

/// The parameters of an enrollment.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct EnrollQuery {
    /// The one-time token.
    #[serde(default)]
    token: Option<String>,
    /// `ca`: by a client certificate, without a token. Other values are ignored: the enrollment has
    /// its own method.
    #[serde(default)]
    method: Option<String>,
}

/// A body of any of the media types.
pub(crate) struct EnrollBody {
    /// The body, or the error if it cannot be read. A malformed token is reported before this
    /// error.
    offer: Result<EnrollmentRequest>,
}

impl Extractor for EnrollBody {
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
        let media = essence(sent);
        let known = MEDIA.contains(&media.as_str());
        if !known && !incoming.body.is_empty() {
            return Err(not_taken(sent, &MEDIA));
        }
        // Generated clients send no media type for an empty body.
        if !known && !media.is_empty() {
            return Err(Error::Refused(Refusal::InvalidContentType));
        }
        if incoming.body.is_empty() {
            return Ok(Self {
                offer: Ok(EnrollmentRequest::Nothing),
            });
        }
        if media != JSON {
            return Ok(Self {
                offer: Ok(EnrollmentRequest::Text(
                    String::from_utf8_lossy(&incoming.body).into_owned(),
                )),
            });
        }
        // The body is parsed as an arbitrary object first, because unknown members are reported.
        let offer =
            match serde_json::from_slice::<Map<String, Json>>(&incoming.body).map(Json::Object) {
                Ok(json) => {
                    incoming
                        .unknown
                        .extend(report(unknown(&json, &members()), incoming.query)?);
                    body::read(json).map(EnrollmentRequest::Members)
                }
                Err(e) => Err(Error::Unparseable(e.to_string())),
            };
        Ok(Self { offer })
    }
}

/// The schema of the members that any of the methods reads from a JSON body.
fn members() -> serde_json::Value {
    let text = || serde_json::json!({ "type": "string" });
    serde_json::json!({ "properties": { "password": text(), "name": text(), "certCsr": text(), "serverCertCsr": text() } })
}

/// The issued certificates, always as JSON, which every client accepts.
pub(crate) struct Enrolled(Issued);

impl Answer for Enrolled {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Data::<Issued>::describe(operation, schemas);
        if let Some(answer) = &mut operation.answer {
            answer.content.push((
                "application/x-pem-file",
                Some(serde_json::json!({ "type": "string" })),
            ));
        }
        operation.any_accept = true;
    }
    fn reply(self) -> Result<Reply> {
        Data(self.0).reply()
    }
}

/// The token; `None` if it is missing or blank.
///
/// # Errors
/// It is not a UUID.
pub(crate) fn well_formed(token: Option<String>) -> Result<Option<String>> {
    let token = token.filter(|token| !token.is_empty());
    match token {
        Some(text) if Uuid::try_parse(&text).is_err() => {
            Err(Error::invalid("token", "must be a UUID", text))
        }
        other => Ok(other),
    }
}

/// POST /enroll
pub(crate) async fn enroll(
    call: Call,
    Query(wanted): Query<EnrollQuery>,
    sent: EnrollBody,
) -> Result<Enrolled> {
    let by_certificate = wanted.method.as_deref() == Some("ca");
    // With method `ca` there is no token; the C SDK sends the id of the authority instead.
    let token = if by_certificate {
        None
    } else {
        well_formed(wanted.token)?
    };
    let (offer, chain) = (sent.offer?, call.chain());
    if by_certificate {
        return enrollment::enroll_by_certificate(&call.context(), &chain, &offer)
            .await
            .map(|()| Enrolled(Issued::default()));
    }
    let token = token.ok_or(Error::Refused(Refusal::InvalidEnrollmentToken))?;
    enrollment::redeem(
        &call.context(),
        Request {
            token,
            method: None,
            body: offer,
            chain,
        },
    )
    .await
    .map(Enrolled)
}
