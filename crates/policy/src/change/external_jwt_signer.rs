//! External JWT signers: the certificate details shown are read from the certificate, and the API
//! sessions of a signer end when it is disabled or deleted.

use model::{
    clock::Timestamp,
    entity::{
        ApiSession, ExternalJwtSigner, LoginBasis, Record,
        external_jwt_signer::State,
        signer_url::{SignerUrl, USER_INFO, holds_user_info},
    },
    error::{Error, Refusal, Result},
};
use pki::Certificate;

use super::{Change, Lifecycle};

impl Lifecycle for ExternalJwtSigner {
    fn creating(record: &mut Record<Self>, change: &Change<'_, '_>) -> Result<()> {
        admit_addresses(None, &record.spec, change)?;
        describe(record)
    }

    fn edited(old: &Record<Self>, new: &mut Record<Self>, change: &Change<'_, '_>) -> Result<()> {
        admit_addresses(Some(&old.spec), &new.spec, change)?;
        // The key of a certificate stored by an earlier release may be unusable; that must not
        // prevent disabling the signer.
        if new.spec.cert_pem != old.spec.cert_pem {
            describe(new)?;
        }
        if old.spec.enabled && !new.spec.enabled {
            end_sessions(old, change)
        } else {
            Ok(())
        }
    }

    fn deleting(record: &Record<Self>, change: &Change<'_, '_>) -> Result<()> {
        end_sessions(record, change)
    }
}

/// Ends the API sessions that tokens of a signer have opened.
fn end_sessions(signer: &Record<ExternalJwtSigner>, change: &Change<'_, '_>) -> Result<()> {
    change.delete_linked::<ApiSession>(
        "authenticator",
        &LoginBasis::Token(signer.id.clone()).authenticator_id(),
    )
}

/// Rejects an endpoint that keys may not be fetched from, and credentials in a URL. An unchanged
/// value of an earlier release stays, so that the signer can be disabled; no keys are fetched from
/// it. The error does not repeat the URL.
fn admit_addresses(
    old: Option<&ExternalJwtSigner>,
    new: &ExternalJwtSigner,
    change: &Change<'_, '_>,
) -> Result<()> {
    let changed = |of: fn(&ExternalJwtSigner) -> Option<&String>| {
        of(new).filter(|now| old.and_then(of) != Some(now))
    };
    if let Some(endpoint) = changed(|signer| signer.jwks_endpoint.as_ref()) {
        let read = SignerUrl::read(endpoint)
            .ok_or_else(|| Error::invalid("jwksEndpoint", "must be an http or https URL", ""))?;
        read.admit(change.context.plain_key_sets)
            .map_err(|reason| Error::invalid("jwksEndpoint", reason, ""))?;
    }
    if changed(|signer| signer.external_auth_url.as_ref()).is_some_and(|url| holds_user_info(url)) {
        return Err(Error::invalid("externalAuthUrl", USER_INFO, ""));
    }
    Ok(())
}

/// Reads the certificate, if there is one.
fn describe(record: &mut Record<ExternalJwtSigner>) -> Result<()> {
    record.state = match &record.spec.cert_pem {
        Some(pem) => {
            let certificate =
                Certificate::only(pem).map_err(|_| Error::Refused(Refusal::InvalidCertPem))?;
            certificate
                .public_key()
                .usable()
                .map_err(|reason| Error::invalid("certPem", reason.to_string(), ""))?;
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
