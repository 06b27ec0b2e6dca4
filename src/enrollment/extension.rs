//! Renewing a client certificate that this controller issued: a new one is issued and waits beside the current one, until its holder
//! confirms that it arrived. Then it takes the place of the current one, which is dead.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Desk, client_certificate, parsed};
use crate::{
    change::{Change, session_certificate},
    entity::{ApiSession, Authenticator, Credential, Entity, FactsExt, Id, Identity, Record, authenticator::Unverified, missing},
    error::{Error, Refusal, Result},
    pki::Certificate,
    store::Read,
};

/// Who renews.
pub struct Holder {
    pub identity: Id<Identity>,
    pub session: Id<ApiSession>,
}

/// A renewed certificate that waits to be confirmed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "IdentityExtendCerts")]
pub struct Extended {
    /// The authorities to trust, PEM.
    ca: String,
    /// PEM.
    client_cert: String,
}

/// Issues a certificate for the key of the request, with the alternative names of the current one, which `chain` must present.
///
/// # Errors
/// [`Error::Unauthorized`] for somebody else, or another certificate; [`Refusal::CannotUpdateAuthenticator`] for what is no
/// certificate of this controller; [`Refusal::CouldNotProcessCsr`].
pub async fn extend(desk: &Desk<'_>, holder: Holder, id: Id<Authenticator>, chain: &[Certificate], csr: &str) -> Result<Extended> {
    let leaf = chain.first().ok_or(stranger())?;
    let current = desk.store.read(|tx| shown_by(tx, &id, &holder.identity, leaf))?;
    if leaf.fingerprint() != current.fingerprint {
        return Err(stranger());
    }
    if !desk.holdings.authority().issued(leaf) {
        return Err(Error::Refused(Refusal::CannotUpdateAuthenticator));
    }
    let issued = client_certificate(desk, &parsed(csr)?, leaf.names())?;
    let waiting = Unverified { fingerprint: issued.fingerprint(), pem: issued.pem() };
    let work = move |change: &Change<'_, '_>| {
        let (now, mut record) = own(change, &id, &holder.identity)?;
        if now.fingerprint != current.fingerprint {
            return Err(stranger());
        }
        record.spec.credential = Credential::Cert { fingerprint: now.fingerprint, pem: now.pem, unverified: Some(waiting) };
        change.put(record)
    };
    desk.changes.run(work).await?;
    Ok(Extended { ca: desk.holdings.bundle_pem(desk.now.seconds()), client_cert: desk.holdings.chain_pem(&issued) })
}

/// Puts the certificate that waits in the place of the current one: its holder shows that it arrived.
///
/// # Errors
/// [`Error::Unauthorized`] for somebody else's and for an unknown one alike, [`Refusal::CannotUpdateAuthenticator`] if none waits, [`Refusal::InvalidClientCert`] for
/// another.
pub async fn confirm(desk: &Desk<'_>, holder: Holder, id: Id<Authenticator>, shown: String) -> Result<()> {
    let work = move |change: &Change<'_, '_>| {
        // Nobody learns whether somebody else has an authenticator with this id.
        let (old, mut record) = own(change, &id, &holder.identity).map_err(|e| if is_missing(&e) { stranger() } else { e })?;
        let waiting = old.unverified.ok_or(Error::Refused(Refusal::CannotUpdateAuthenticator))?;
        let shown = Certificate::first(&shown).ok().filter(|shown| shown.fingerprint() == waiting.fingerprint);
        let shown = shown.ok_or(Error::Refused(Refusal::InvalidClientCert))?;
        record.spec.credential = Credential::certificate(&shown);
        change.put(record)?;
        session_certificate::withdraw(change, &old.fingerprint)?;
        session_certificate::add(change, &holder.session, &shown).map(|_| ())
    };
    desk.changes.run(work).await
}

/// The certificate of an authenticator.
struct Current {
    fingerprint: String,
    pem: String,
    unverified: Option<Unverified>,
}

/// The certificate of an authenticator, for whoever shows a certificate. What is somebody else's is unknown to all but those who hold its
/// key, and know of it anyway.
fn shown_by(tx: &Read<'_>, id: &Id<Authenticator>, identity: &Id<Identity>, leaf: &Certificate) -> Result<Current> {
    let record = tx.get(id)?;
    if record.spec.identity_id != *identity && record.spec.credential.fingerprint() != Some(&leaf.fingerprint()) {
        return Err(missing(Authenticator::KIND, id));
    }
    own(tx, id, identity).map(|(current, _)| current)
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::NotFound { .. })
}

/// An authenticator of this identity, which must be a certificate.
fn own(tx: &Read<'_>, id: &Id<Authenticator>, identity: &Id<Identity>) -> Result<(Current, Record<Authenticator>)> {
    let record = tx.get(id)?;
    if record.spec.identity_id != *identity {
        return Err(stranger());
    }
    match record.spec.credential.clone() {
        Credential::Cert { fingerprint, pem, unverified } => Ok((Current { fingerprint, pem, unverified }, record)),
        Credential::Updb { .. } => Err(Error::Refused(Refusal::CannotUpdateAuthenticator)),
    }
}

fn stranger() -> Error {
    Error::Unauthorized { anonymous: false }
}
