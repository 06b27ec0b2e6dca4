//! Method `ott`: a one-time token and a certificate request become a client certificate.

use super::Issued;
use crate::{
    change::{Change, Lifecycle},
    entity::{Authenticator, Credential, Enrollment, Id, Record},
    error::{Error, Refusal, Result},
    pki::{AlternativeNames, Csr, Holdings, Validity},
};

/// Years that a client certificate is good for.
const YEARS: u16 = 1;

/// Issues the certificate, stores it as an authenticator and uses the enrollment up.
pub fn redeem(change: &Change<'_, '_>, holdings: &Holdings, enrollment: &Record<Enrollment>, csr: &str) -> Result<Issued> {
    let identity = enrollment.spec.identity_id.clone().ok_or(Error::Refused(Refusal::InvalidEnrollmentToken))?;
    let csr = Csr::parse(csr).map_err(|_| Error::Refused(Refusal::CouldNotProcessCsr))?;
    let validity = Validity::years(YEARS, change.now().seconds());
    let issued = holdings
        .authority()
        .issue_client(&csr, &AlternativeNames::default(), validity)
        .map_err(|_| Error::Refused(Refusal::CouldNotProcessCsr))?;
    let credential = Credential::Cert { fingerprint: issued.fingerprint(), pem: issued.pem(), unverified: None };
    let authenticator = Authenticator { identity_id: identity, credential };
    change.insert(Record::new(Id::from_text(Authenticator::new_id()), change.now(), authenticator))?;
    change.delete(&enrollment.id)?;
    Ok(Issued { cert: Some(holdings.chain_pem(&issued)), ..Issued::default() })
}
