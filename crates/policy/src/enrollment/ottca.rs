//! Method `ottca`: a one-time token and a certificate of a certain third-party authority.

use model::{
    entity::{Ca, Credential, Enrollment, Id, Record, Tags, TypedLookup},
    error::{Error, Refusal, Result},
};
use pki::Certificate;
use store::Read;

use super::context::{EnrollmentContext, Issued, unknown, use_up};
use crate::{
    authentication::trust::{self, ChainPolicy},
    change::{
        Change,
        authenticator::{self, NewAuthenticator},
    },
};

/// Stores the presented certificate as an authenticator and deletes the enrollment.
pub(crate) async fn redeem(
    context: &EnrollmentContext<'_>,
    enrollment: Record<Enrollment>,
    chain: &[Certificate],
) -> Result<Issued> {
    let identity = enrollment.spec.identity_id.clone().ok_or_else(unknown)?;
    let id = enrollment.spec.ca_id.clone().ok_or_else(unknown)?;
    let ca = context.store.read(|tx| usable(tx, &id))?;
    let refused = Error::Refused(Refusal::CertFailedValidation);
    let Some(leaf) = chain.first().filter(|_| {
        trust::above(
            vec![ca],
            chain,
            ChainPolicy::of_enrollment(context.now.seconds()),
        )
        .is_some()
    }) else {
        return Err(refused);
    };
    let wanted = NewAuthenticator {
        identity,
        credential: Credential::certificate(leaf),
        ca: Some(id.clone()),
        tags: Tags::default(),
    };
    let work = move |change: &Change<'_, '_>| {
        use_up(change, &enrollment)?;
        usable(change.read(), &id)?;
        authenticator::add(change, wanted)
    };
    context.changes.run(work).await?;
    Ok(Issued::default())
}

/// The authority, if it is verified and enabled for this method.
fn usable(tx: &Read<'_>, id: &Id<Ca>) -> Result<Record<Ca>> {
    let ca = tx.get(id)?;
    if ca.state.is_verified && ca.spec.is_ott_ca_enrollment_enabled {
        return Ok(ca);
    }
    Err(Error::Refused(Refusal::EnrollmentCaNotValid))
}
