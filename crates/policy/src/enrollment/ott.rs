//! Method `ott`: a one-time token and a certificate request become a client certificate.

use model::{
    entity::{Credential, Enrollment, Record, Tags},
    error::Result,
};
use pki::AlternativeNames;

use super::context::{
    EnrollmentContext, EnrollmentRequest, Issued, client_certificate, parsed, unknown,
    unprocessable, use_up,
};
use crate::change::{
    Change,
    authenticator::{self, NewAuthenticator},
};

/// Issues the certificate, stores it as an authenticator and deletes the enrollment.
pub(crate) async fn redeem(
    context: &EnrollmentContext<'_>,
    enrollment: Record<Enrollment>,
    body: &EnrollmentRequest,
) -> Result<Issued> {
    let identity = enrollment.spec.identity_id.clone().ok_or_else(unknown)?;
    let EnrollmentRequest::Text(csr) = body else {
        return Err(unprocessable());
    };
    // Requested alternative names are ignored, because the requester may not choose them.
    let issued = client_certificate(context, &parsed(csr)?, &AlternativeNames::default())?;
    let wanted = NewAuthenticator {
        identity,
        credential: Credential::certificate(&issued),
        ca: None,
        tags: Tags::default(),
    };
    let work = move |change: &Change<'_, '_>| {
        use_up(change, &enrollment)?;
        authenticator::add(change, wanted)
    };
    context.changes.run(work).await?;
    Ok(Issued {
        cert: Some(context.keystore.chain_pem(&issued)),
        ..Issued::default()
    })
}
