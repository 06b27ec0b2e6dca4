//! Operations on third-party certificate authorities beyond the generic ones.

use std::sync::Arc;

use model::{
    entity::{Ca, Id, TypedLookup},
    error::{Error, Result},
};
use policy::change::ca;

use crate::{
    answer::{Edited, NoData, SignedToken},
    body::Incoming,
    call::Call,
    change_mode::{ChangeMode, ChangeOutcome},
    crud,
    extractor::{Extractor, IfMatch, Patch},
    media_type::{essence, not_taken},
    openapi::operation::{BodyShape, JSON, Operation},
};

const PLAIN: &str = "text/plain";

/// A certificate in PEM, as plain text.
pub(crate) struct VerificationCertificate(String);

impl Extractor for VerificationCertificate {
    fn describe(operation: &mut Operation) -> Result<()> {
        operation.body = Some(BodyShape {
            name: "certificate".into(),
            required: true,
            media: &[PLAIN],
            schema: Arc::new(serde_json::json!({ "type": "string" })),
            checker: None,
            title: None,
            judged_by_function: true,
        });
        operation.errors.insert(400);
        Ok(())
    }
    fn take(incoming: &mut Incoming<'_>) -> Result<Self> {
        let sent = incoming.header("content-type").unwrap_or_default();
        match essence(sent).as_str() {
            PLAIN => {}
            // Clients often send JSON by mistake. The error says which body is expected.
            JSON => {
                return Err(Error::Unparseable(
                    "the body must be a PEM certificate as text/plain".into(),
                ));
            }
            _ => return Err(not_taken(sent, &[PLAIN])),
        }
        if incoming.body.is_empty() {
            return Err(Error::missing("certificate", "is required", ""));
        }
        Ok(Self(String::from_utf8_lossy(&incoming.body).into_owned()))
    }
}

/// PATCH /cas/{id}; a blank `identityNameFormat` is ignored.
pub(crate) async fn patch(
    call: Call,
    id: Id<Ca>,
    known: IfMatch,
    mut patch: Patch<Ca>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<Edited>> {
    if let Some(members) = patch.body.as_object_mut() {
        members.retain(|name, member| {
            name != "identityNameFormat"
                || member
                    .as_str()
                    .is_none_or(|format| !format.trim().is_empty())
        });
    }
    crud::patch(call, id, known, patch, mode).await
}

/// POST /cas/{id}/verify
pub(crate) async fn verify(
    call: Call,
    id: Id<Ca>,
    VerificationCertificate(proof): VerificationCertificate,
    mode: ChangeMode,
) -> Result<ChangeOutcome<NoData>> {
    mode.run(&call, move |change| {
        ca::verify(change, &id, &proof).map(|()| NoData)
    })
    .await
}

/// GET /cas/{id}/jwt
pub(crate) async fn token(call: Call, id: Id<Ca>) -> Result<SignedToken> {
    let ca = call.state.store.read(|tx| tx.get(&id))?;
    ca::token(&ca, &call.state.keystore, &call.state.instance.address).map(SignedToken)
}
