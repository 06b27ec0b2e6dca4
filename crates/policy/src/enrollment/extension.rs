//! Renewal of a client certificate that this controller issued. A new certificate is issued and
//! waits beside the current one until its holder confirms that it arrived. Then it replaces the
//! current one, which becomes invalid.

use model::{
    entity::{
        ApiSession, Authenticator, Credential, Entity, Id, Identity, Record, TypedLookup,
        authenticator::Unverified, missing,
    },
    error::{Error, Refusal, Result},
};
use pki::Certificate;
use schemars::JsonSchema;
use serde::Serialize;
use store::Read;

use super::context::{EnrollmentContext, client_certificate, parsed};
use crate::change::{Change, session_certificate};

/// The caller who renews.
pub struct CertificateOwner {
    pub identity: Id<Identity>,
    pub session: Id<ApiSession>,
}

/// A renewed certificate that is not confirmed yet.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "IdentityExtendCerts")]
pub struct Extended {
    /// The authorities to trust, as PEM.
    ca: String,
    /// PEM.
    client_cert: String,
}

/// Issues a certificate for the key of the request, with the alternative names of the current one,
/// which `chain` must present.
///
/// # Errors
/// [`Error::NotFound`] as in [`confirm`]; [`Error::Unauthorized`] if `chain` has another
/// certificate or none; [`Refusal::CannotUpdateAuthenticator`] if this controller did not issue the
/// certificate; [`Refusal::CouldNotProcessCsr`].
pub async fn extend(
    context: &EnrollmentContext<'_>,
    owner: CertificateOwner,
    id: Id<Authenticator>,
    chain: &[Certificate],
    csr: &str,
) -> Result<Extended> {
    let leaf = chain.first().ok_or(stranger())?;
    let current = context
        .store
        .read(|tx| own(tx, &id, &owner.identity, Some(&leaf.fingerprint())))?
        .0;
    if leaf.fingerprint() != current.fingerprint {
        return Err(stranger());
    }
    if !context.keystore.authority().has_issued(leaf) {
        return Err(Error::Refused(Refusal::CannotUpdateAuthenticator));
    }
    let issued = client_certificate(context, &parsed(csr)?, leaf.names())?;
    let waiting = Unverified {
        fingerprint: issued.fingerprint(),
        pem: issued.pem(),
    };
    let work = move |change: &Change<'_, '_>| {
        let (now, mut record) = own(change.read(), &id, &owner.identity, None)?;
        if now.fingerprint != current.fingerprint {
            return Err(stranger());
        }
        record.spec.credential = Credential::Cert {
            fingerprint: now.fingerprint,
            pem: now.pem,
            unverified: Some(waiting),
        };
        change.put(record)
    };
    context.changes.run(work).await?;
    Ok(Extended {
        ca: context.keystore.bundle_pem(context.now.seconds()),
        client_cert: context.keystore.chain_pem(&issued),
    })
}

/// Replaces the current certificate by the one that waits, after its owner has shown that it
/// arrived.
///
/// # Errors
/// [`Error::NotFound`] for an unknown authenticator and for that of another identity
/// ([`Error::Unauthorized`] if its certificate is shown), [`Refusal::CannotUpdateAuthenticator`] if
/// none waits, [`Refusal::InvalidClientCert`] for another certificate.
pub async fn confirm(
    context: &EnrollmentContext<'_>,
    owner: CertificateOwner,
    id: Id<Authenticator>,
    shown: String,
) -> Result<()> {
    let work = move |change: &Change<'_, '_>| {
        let shown = Certificate::first(&shown).ok();
        let fingerprint = shown.as_ref().map(Certificate::fingerprint);
        let (old, mut record) = own(change.read(), &id, &owner.identity, fingerprint.as_deref())?;
        let waiting = old
            .unverified
            .ok_or(Error::Refused(Refusal::CannotUpdateAuthenticator))?;
        let shown = shown.filter(|shown| shown.fingerprint() == waiting.fingerprint);
        let shown = shown.ok_or(Error::Refused(Refusal::InvalidClientCert))?;
        record.spec.credential = Credential::certificate(&shown);
        record.state.extension = None;
        change.put(record)?;
        session_certificate::withdraw(change, &old.fingerprint)?;
        session_certificate::add(change, &owner.session, &shown).map(|_| ())
    };
    context.changes.run(work).await
}

/// The certificates of an authenticator.
struct Current {
    fingerprint: String,
    pem: String,
    unverified: Option<Unverified>,
}

/// An authenticator of this identity, which must be a certificate. An authenticator of another
/// identity counts as unknown, except to a caller who shows its certificate; `shown` is the
/// fingerprint of the shown certificate.
fn own(
    tx: &Read<'_>,
    id: &Id<Authenticator>,
    identity: &Id<Identity>,
    shown: Option<&str>,
) -> Result<(Current, Record<Authenticator>)> {
    let record = tx.get(id)?;
    if record.spec.identity_id != *identity {
        let is_known = shown.is_some() && record.spec.credential.fingerprint() == shown;
        return Err(if is_known {
            stranger()
        } else {
            missing(Authenticator::KIND, id)
        });
    }
    match record.spec.credential.clone() {
        Credential::Cert {
            fingerprint,
            pem,
            unverified,
        } => Ok((
            Current {
                fingerprint,
                pem,
                unverified,
            },
            record,
        )),
        Credential::Updb { .. } => Err(Error::Refused(Refusal::CannotUpdateAuthenticator)),
    }
}

fn stranger() -> Error {
    Error::Unauthorized { anonymous: false }
}
