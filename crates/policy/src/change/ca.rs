//! Third-party certificate authorities: what is read from the certificate, and the proof that its
//! owner holds the key.

use model::{
    entity::{Ca, Id, Record, TypedLookup},
    error::{Error, Refusal, Result},
};
use pki::{self, Certificate, CertificatePurpose, LeafDates, Verification};
use uuid::Uuid;

use super::{Change, Lifecycle};

impl Lifecycle for Ca {
    fn creating(record: &mut Record<Self>, change: &Change<'_, '_>) -> Result<()> {
        // The value is not repeated, because it may contain a private key by mistake.
        let unreadable = |reason: pki::Error| Error::invalid("certPem", reason.to_string(), "");
        let certificates = record.spec.certificates().map_err(unreadable)?;
        let first = certificates
            .first()
            .filter(|first| first.is_ca())
            .ok_or(Error::Refused(Refusal::CertificateIsNotCa))?;
        certificates
            .iter()
            .try_for_each(Certificate::check_as_authority)
            .map_err(unreadable)?;
        record.state.fingerprint = first.fingerprint();
        record.state.verification_token = Uuid::new_v4().to_string();
        if change
            .read()
            .any::<Self>("fingerprint", &record.state.fingerprint)?
        {
            return Err(Error::Duplicate {
                field: "certPem".into(),
                value: record.spec.cert_pem.clone(),
            });
        }
        Ok(())
    }
}

/// Verifies the proof of possession: a certificate whose common name is the verification token,
/// signed with the authority's key.
///
/// # Errors
/// There is no such authority, it is verified already, or the proof is not valid.
pub fn verify(change: &Change<'_, '_>, id: &Id<Ca>, proof: &str) -> Result<()> {
    let mut ca = change.get(id)?;
    if ca.state.is_verified {
        return Err(Error::Refused(Refusal::CaAlreadyVerified));
    }
    let proof = Certificate::first(proof).map_err(|reason| match reason {
        pki::Error::WrongBlock => Error::Refused(Refusal::ExpectedPemCertificate),
        pki::Error::BadDer => Error::Refused(Refusal::CouldNotParseDerBlock),
        _ => Error::Unparseable(reason.to_string()),
    })?;
    if proof.subject().common_name().as_deref() != Some(ca.state.verification_token.as_str()) {
        return Err(Error::Refused(Refusal::InvalidCommonName));
    }
    let authority = Certificate::first(&ca.spec.cert_pem)
        .map_err(|e| Error::Internal(format!("the certificate of ca {id}: {e}")))?;
    let now = change.now().seconds();
    let (anchors, intermediates) = (std::slice::from_ref(&authority), &[]);
    let verification = Verification {
        anchors,
        intermediates,
        now,
        purpose: CertificatePurpose::Any,
        leaf_dates: LeafDates::Enforce,
    };
    if verification
        .anchor_of(std::slice::from_ref(&proof))
        .is_err()
    {
        return Err(Error::ProofRefused(proof.refusal_below(&authority, now)));
    }
    ca.state.is_verified = true;
    change.put(ca)
}

/// The claims of the token for enrollment with a certificate of an authority. The token is not
/// secret and does not expire.
#[derive(serde::Serialize)]
struct Claims<'c> {
    em: &'c str,
    jti: &'c str,
    iss: &'c str,
    sub: &'c str,
    ctrls: Option<Vec<String>>,
}

/// The signed token with the address at which clients enroll with a certificate of this authority.
/// `address` is that of the controller, `host:port`.
///
/// # Errors
/// Signing fails.
pub fn token(ca: &Record<Ca>, keystore: &pki::Keystore, address: &str) -> Result<String> {
    // The issuer ends with a slash, unlike in one-time tokens, because clients expect that here.
    let (id, issuer) = (ca.id.as_str(), format!("https://{address}/"));
    let claims = Claims {
        em: "ca",
        jti: id,
        iss: &issuer,
        sub: id,
        ctrls: None,
    };
    keystore
        .signer()
        .sign(&claims)
        .map_err(|e| Error::Internal(format!("signing the token of an authority: {e}")))
}
