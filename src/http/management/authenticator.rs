//! Credentials that administrators hand out without an enrollment.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    change::{Change, Lifecycle},
    entity::{Authenticator, Credential, FactsExt, Id, Identity, Record},
    error::{Error, Refusal, Result},
    http::{answer::Created, argument::Body, call::Call},
    pki::{Certificate, LeafDates, Purpose, Verification},
};

/// A new credential.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthenticatorCreate {
    identity_id: Id<Identity>,
    /// `updb` for a user name and password, `cert` for a certificate.
    method: String,
    #[serde(default)]
    #[schemars(with = "String", length(min = 4, max = 100))]
    username: Option<String>,
    #[serde(default)]
    #[schemars(with = "String", length(min = 5, max = 100))]
    password: Option<String>,
    /// One certificate, PEM.
    #[serde(default)]
    #[schemars(with = "String")]
    cert_pem: Option<String>,
    #[serde(default)]
    tags: crate::entity::Tags,
}

/// POST /authenticators
pub async fn create(call: Call, Body(new): Body<AuthenticatorCreate>) -> Result<Created> {
    let credential = match new.method.as_str() {
        "updb" => updb(&call, &new).await?,
        "cert" => cert(&call, &new)?,
        _ => return Err(Error::invalid("method", "must be updb or cert", new.method)),
    };
    call.changes.run(move |change| add(change, new.identity_id, credential, new.tags)).await
}

async fn updb(call: &Call, new: &AuthenticatorCreate) -> Result<Credential> {
    let needed = |value: &Option<String>, field: &str| {
        value.clone().filter(|v| !v.is_empty()).ok_or_else(|| Error::invalid(field, "is required", ""))
    };
    let (username, password) = (needed(&new.username, "username")?, needed(&new.password, "password")?);
    call.store.read(|tx| tx.get(&new.identity_id).map(|_| ()))?;
    Ok(Credential::Updb { username, password: call.passwords.hash(password).await? })
}

/// A certificate that stands below an authority we trust, at the time it was issued.
fn cert(call: &Call, new: &AuthenticatorCreate) -> Result<Credential> {
    let pem = new.cert_pem.as_deref().filter(|pem| !pem.trim().is_empty()).ok_or_else(|| Error::invalid("certPem", "is required", ""))?;
    let certificate = Certificate::only(pem).map_err(|_| Error::Refused(Refusal::CouldNotParsePemBlock))?;
    let cas = call.holdings.authority().cas();
    let now = certificate.not_before();
    let judge = Verification { anchors: cas, intermediates: cas, now, purpose: Purpose::Any, leaf_dates: LeafDates::Ignore };
    judge.anchor_of(std::slice::from_ref(&certificate)).map_err(|reason| Error::invalid("certPem", reason.to_string(), ""))?;
    Ok(Credential::Cert { fingerprint: certificate.fingerprint(), pem: certificate.pem(), unverified: None })
}

fn add(change: &Change<'_, '_>, identity_id: Id<Identity>, credential: Credential, tags: crate::entity::Tags) -> Result<Created> {
    change.get(&identity_id)?;
    let same = |other: &Record<Authenticator>| std::mem::discriminant(&other.spec.credential) == std::mem::discriminant(&credential);
    if change.linked::<Authenticator>("identity", identity_id.as_str())?.iter().any(same) {
        return Err(Error::Refused(Refusal::MaxAuthenticatorMethodsReached));
    }
    let spec = Authenticator { identity_id, credential };
    let mut record = Record::new(Id::from_text(Authenticator::new_id()), change.now(), spec);
    record.tags = tags;
    change.insert(record).map(|record| Created::new(&record.id))
}
