//! Method `updb`: a one-time token and a chosen password. The user name is that of the enrollment.

use model::{
    entity::{Credential, Enrollment, Record, Tags},
    error::{Error, Result},
};

use super::context::{EnrollmentContext, EnrollmentRequest, Issued, unknown, use_up};
use crate::change::{
    Change,
    authenticator::{self, NewAuthenticator},
};

/// Stores the password as an authenticator and deletes the enrollment.
pub(crate) async fn redeem(
    context: &EnrollmentContext<'_>,
    enrollment: Record<Enrollment>,
    body: &EnrollmentRequest,
) -> Result<Issued> {
    let identity = enrollment.spec.identity_id.clone().ok_or_else(unknown)?;
    let username = enrollment.spec.username.clone().ok_or_else(unknown)?;
    let given = body
        .members()
        .and_then(|members| members.password.as_ref()?.text())
        .filter(|password| !password.is_empty());
    let given = given.ok_or_else(|| Error::missing("password", "is required, as a text", ""))?;
    let password = context
        .passwords
        .hash_for(context.store, &identity, context.address, given.to_owned())
        .await?;
    let issued = Issued {
        username: Some(username.clone()),
        ..Issued::default()
    };
    let wanted = NewAuthenticator {
        identity,
        credential: Credential::Updb { username, password },
        ca: None,
        tags: Tags::default(),
    };
    let work = move |change: &Change<'_, '_>| {
        use_up(change, &enrollment)?;
        authenticator::add(change, wanted)
    };
    context.changes.run(work).await?;
    Ok(issued)
}
