//! External JWT signers: what is shown of the certificate is read from it.

use super::{Change, Lifecycle};
use crate::{
    clock::Timestamp,
    entity::{ExternalJwtSigner, Record, external_jwt_signer::State},
    error::{Error, Refusal, Result},
    pki::Certificate,
};

impl Lifecycle for ExternalJwtSigner {
    fn creating(record: &mut Record<Self>, _: &Change<'_, '_>) -> Result<()> {
        describe(record)
    }

    fn edited(old: &Record<Self>, new: &mut Record<Self>, _: &Change<'_, '_>) -> Result<()> {
        // What an earlier release took up may have a key that is of no use; that must keep nobody from disabling it.
        if new.spec.cert_pem == old.spec.cert_pem { Ok(()) } else { describe(new) }
    }
}

/// Reads the certificate, if there is one.
fn describe(record: &mut Record<ExternalJwtSigner>) -> Result<()> {
    record.state = match &record.spec.cert_pem {
        Some(pem) => {
            let certificate = Certificate::only(pem).map_err(|_| Error::Refused(Refusal::InvalidCertPem))?;
            certificate.public_key().usable().map_err(|reason| Error::invalid("certPem", reason.to_string(), ""))?;
            state(&certificate)
        }
        None => State::default(),
    };
    Ok(())
}

fn state(certificate: &Certificate) -> State {
    State {
        fingerprint: Some(certificate.fingerprint()),
        common_name: certificate.subject().common_name().unwrap_or_default(),
        not_before: Timestamp::from_seconds(certificate.not_before()),
        not_after: Timestamp::from_seconds(certificate.not_after()),
    }
}
