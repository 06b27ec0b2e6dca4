//! Records of another controller that keep their ids: the state that requests cannot write, and
//! their credentials and enrollments.

use std::collections::HashMap;

use model::{
    clock::Timestamp,
    entity::{
        Authenticator, Ca, ConfigType, Credential, EdgeRouter, Enrollment, Id, Identity, Record,
        Tags, TransitRouter, TypedLookup, edge_router, enrollment::Method, identity::Override,
    },
    error::{Error, Result},
};
use pki::{Certificate, Name};

use super::{
    Change,
    authenticator::{NewAuthenticator, add_as},
    enrollment,
};

/// The state of an identity that requests cannot write.
#[derive(Debug, Clone, Default)]
pub struct ImportedState {
    pub is_default_admin: bool,
    pub is_disabled: bool,
    pub disabled_until: Option<Timestamp>,
    /// The configs that it sees instead of those of services: ids of a service and a config.
    pub overrides: Vec<(String, String)>,
}

/// Sets the state of an identity.
///
/// # Errors
/// There is no such identity.
pub fn identity(change: &Change<'_, '_>, id: &str, state: ImportedState) -> Result<()> {
    let mut identity = change.get(&Id::<Identity>::from_text(id))?;
    identity.state.is_default_admin = state.is_default_admin;
    identity.state.disabled_at = state.is_disabled.then(|| change.now());
    identity.state.disabled_until = state.disabled_until;
    let overrides = state.overrides.into_iter();
    identity.state.service_configs = overrides
        .map(|(service, config)| Override {
            service: Id::from_text(service),
            config: Id::from_text(config),
        })
        .collect();
    change.put(identity)
}

/// Marks a router of either kind as enrolled with this certificate, and deletes the enrollment that
/// its creation issued.
///
/// # Errors
/// There is no such router, or the certificate has another fingerprint.
pub fn router(
    change: &Change<'_, '_>,
    id: &str,
    fingerprint: &str,
    pem: Option<&str>,
) -> Result<()> {
    let cert_pem = pem
        .map(|pem| matching(fingerprint, pem).map(|certificate| certificate.pem()))
        .transpose()?;
    let enrolled = edge_router::State {
        is_verified: true,
        fingerprint: Some(fingerprint.into()),
        cert_pem,
        ..edge_router::State::default()
    };
    change.delete_linked::<Enrollment>("edgeRouter", id)?;
    change.delete_linked::<Enrollment>("transitRouter", id)?;
    if let Some(mut router) = change.find(&Id::<EdgeRouter>::from_text(id))? {
        router.state = enrolled;
        return change.put(router);
    }
    let mut router = change.get(&Id::<TransitRouter>::from_text(id))?;
    router.state = enrolled;
    change.put(router)
}

/// Marks a third-party authority as verified.
///
/// # Errors
/// There is no such authority.
pub fn verified_ca(change: &Change<'_, '_>, id: &str) -> Result<()> {
    let mut ca = change.get(&Id::<Ca>::from_text(id))?;
    ca.state.is_verified = true;
    change.put(ca)
}

/// Deletes the config type of this release that has this name, so that a config type of the other
/// controller can have the name.
///
/// # Errors
/// The file cannot be read or written.
pub fn make_way(change: &Change<'_, '_>, name: &str) -> Result<()> {
    let found = change.read().find_by::<ConfigType>("name", name)?;
    found.map_or(Ok(()), |found| change.delete_record(found))
}

/// Whether the authority of the other controller was adopted, so that certificates that it issued
/// are valid here.
pub fn is_adopted(change: &Change<'_, '_>) -> bool {
    change.context.keystore.is_adopted()
}

/// The certificate in a PEM text, which must have this fingerprint.
fn matching(fingerprint: &str, pem: &str) -> Result<Certificate> {
    let certificate = Certificate::first(pem)
        .map_err(|error| Error::invalid("certPem", error.to_string(), ""))?;
    if certificate.fingerprint().eq_ignore_ascii_case(fingerprint) {
        return Ok(certificate);
    }
    Err(Error::invalid(
        "fingerprint",
        "is not that of the certificate",
        fingerprint,
    ))
}

/// The certificates of the third-party authorities, by their names.
pub struct Issuers(HashMap<Name, Vec<(Id<Ca>, Certificate)>>);

impl Issuers {
    /// Reads all of them. A certificate that cannot be parsed issued nothing.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(change: &Change<'_, '_>) -> Result<Self> {
        let mut issuers = HashMap::<_, Vec<_>>::new();
        change.read().each::<Ca>(|ca| {
            for certificate in ca.spec.certificates().unwrap_or_default() {
                issuers
                    .entry(certificate.subject().clone())
                    .or_default()
                    .push((ca.id.clone(), certificate));
            }
            Ok(())
        })?;
        Ok(Self(issuers))
    }

    /// The authority that issued a certificate.
    fn issuer_of(&self, certificate: &Certificate) -> Option<Id<Ca>> {
        let named = self.0.get(certificate.issuer())?;
        named
            .iter()
            .find(|(_, issuer)| certificate.is_signed_by(issuer))
            .map(|(id, _)| id.clone())
    }
}

/// Adds a client certificate; an empty PEM text leaves the certificate unknown. Returns `false`,
/// without a change, if no third-party authority issued the certificate and the authority of the
/// other controller was not adopted.
///
/// # Errors
/// The certificate has another fingerprint, or a rule is broken.
pub fn certificate(
    change: &Change<'_, '_>,
    issuers: &Issuers,
    id: &str,
    identity: &str,
    fingerprint: &str,
    pem: &str,
) -> Result<bool> {
    let certificate = if pem.trim().is_empty() {
        None
    } else {
        Some(matching(fingerprint, pem)?)
    };
    let of_others = certificate
        .as_ref()
        .filter(|certificate| !change.context.keystore.authority().has_issued(certificate));
    let issuer = of_others.and_then(|certificate| issuers.issuer_of(certificate));
    if issuer.is_none() && !is_adopted(change) {
        return Ok(false);
    }
    let pem = certificate
        .map(|certificate| certificate.pem())
        .unwrap_or_default();
    let credential = Credential::Cert {
        fingerprint: fingerprint.to_ascii_lowercase(),
        pem,
        unverified: None,
    };
    let wanted = NewAuthenticator {
        identity: Id::from_text(identity),
        credential,
        ca: issuer,
        tags: Tags::default(),
    };
    add_as(change, Id::from_text(id), wanted).map(|_| true)
}

/// Adds a password, as a PHC string.
///
/// # Errors
/// The user name is taken or too short.
pub fn password(
    change: &Change<'_, '_>,
    id: &str,
    identity: &str,
    username: &str,
    password: &str,
) -> Result<()> {
    let credential = Credential::Updb {
        username: username.into(),
        password: password.into(),
    };
    let wanted = NewAuthenticator {
        identity: Id::from_text(identity),
        credential,
        ca: None,
        tags: Tags::default(),
    };
    add_as(change, Id::<Authenticator>::from_text(id), wanted).map(drop)
}

/// Issues an enrollment of an identity, if it has none of this method.
///
/// # Errors
/// There is no such identity or authority.
pub fn enroll(
    change: &Change<'_, '_>,
    identity: &str,
    method: Method,
    ca: Option<&str>,
    username: Option<&str>,
) -> Result<()> {
    let identity = change.get(&Id::<Identity>::from_text(identity))?.id;
    let others = change.linked::<Enrollment>("identity", identity.as_str())?;
    if others
        .iter()
        .any(|other: &Record<Enrollment>| other.spec.method == method)
    {
        return Ok(());
    }
    let of_identity = Enrollment::of_identity(method, identity);
    let wanted = Enrollment {
        ca_id: ca.map(Id::from_text),
        username: username.map(str::to_owned),
        ..of_identity
    };
    let expires_at = change.now().plus(change.context.identity_enrollment);
    enrollment::issue(change.sign(wanted, expires_at)?, Tags::default(), change).map(drop)
}
