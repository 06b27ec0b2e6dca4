//! Session certificates: a caller gets certificates for its own keys, valid as long as the session,
//! and sees those of its session.

use model::{
    entity::{
        ApiSession, Entity, FilterNames, Id, Record, SessionCertificate, TypedLookup, missing,
    },
    error::{Error, Refusal, Result},
};
use pki::Csr;
use policy::{
    change::{Change, session_certificate},
    enrollment::unissued,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Read, Scope};

use crate::{
    answer::{CreatedData, NoData, Tagged},
    call::Call,
    conditional::entity_tag,
    envelope::{Detail, Location, detail as seen},
    extractor::{Body, IfMatch, Query},
    list_body::{StreamedList, listed},
    listing::Listing,
};

type ShownCertificate = Detail<<SessionCertificate as Entity>::View>;

/// The filterable names.
const FILTER_NAMES: FilterNames<SessionCertificate> = FilterNames::only(&[
    "id",
    "createdAt",
    "updatedAt",
    "tags",
    "subject",
    "fingerprint",
]);

fn session(call: &Call) -> Result<&Id<ApiSession>> {
    Ok(&call.caller()?.session.id)
}

/// A certificate of the session; those of other sessions are not found.
fn own(
    tx: &Read<'_>,
    id: &Id<SessionCertificate>,
    session: &Id<ApiSession>,
) -> Result<Record<SessionCertificate>> {
    let found = tx
        .find(id)?
        .filter(|record| record.spec.api_session_id == *session);
    found.ok_or_else(|| missing(SessionCertificate::KIND, id))
}

/// GET /current-api-session/certificates
pub(crate) async fn list(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<ShownCertificate>> {
    let wanted = Scope::Having {
        field: "apiSession",
        value: session(&call)?.to_string(),
    };
    listed(
        &call,
        listing,
        &FILTER_NAMES,
        |_| Ok(wanted),
        |tx, record| seen(record, tx),
    )
    .await
}

/// GET /current-api-session/certificates/{id}
pub(crate) async fn detail(
    call: Call,
    id: Id<SessionCertificate>,
) -> Result<Tagged<ShownCertificate>> {
    let session = session(&call)?;
    call.state.store.read(|tx| {
        let certificate = own(tx, &id, session)?;
        Ok(Tagged {
            data: seen(&certificate, tx)?,
            tag: entity_tag(&certificate)?,
        })
    })
}

/// DELETE /current-api-session/certificates/{id}
pub(crate) async fn delete(
    call: Call,
    id: Id<SessionCertificate>,
    known: IfMatch,
) -> Result<NoData> {
    let session = session(&call)?.clone();
    call.changes
        .run(move |change| {
            let certificate = own(change.read(), &id, &session)?;
            known.check(&certificate)?;
            change.delete_record(certificate)
        })
        .await
        .map(|()| NoData)
}

/// A request for a certificate.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "CurrentApiSessionCertificateCreate")]
pub(crate) struct NewCertificate {
    /// PEM.
    csr: String,
}

/// The certificate and its location.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CurrentApiSessionCertificateCreateResponse")]
pub(crate) struct Certified {
    #[serde(flatten)]
    at: Location,
    /// PEM.
    certificate: String,
    /// The trusted certificate authorities, PEM.
    cas: String,
}

/// POST /current-api-session/certificates
pub(crate) async fn create(
    call: Call,
    Body(wanted): Body<NewCertificate>,
) -> Result<CreatedData<Certified>> {
    let session = session(&call)?.clone();
    let csr = Csr::parse(&wanted.csr).map_err(|_| Error::Refused(Refusal::CouldNotProcessCsr))?;
    let issued = call
        .state
        .keystore
        .authority()
        .issue_session(&csr, call.now.seconds())
        .map_err(unissued)?;
    let work = {
        let (issued, limit) = (issued.clone(), call.state.limits.load().certificates);
        move |change: &Change<'_, '_>| {
            change
                .find(&session)?
                .ok_or(Error::Unauthorized { anonymous: false })?;
            session_certificate::add_asked(change, &session, &issued, limit)
        }
    };
    let record = call.changes.run(work).await?;
    let cas = call.state.keystore.bundle_pem(call.now.seconds());
    Ok(CreatedData(Certified {
        at: Location::of(&record.id),
        certificate: issued.pem(),
        cas,
    }))
}
