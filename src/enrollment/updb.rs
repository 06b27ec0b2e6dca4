//! Method `updb`: a one-time token and a chosen password. The user name is that of the enrollment.

use serde_json::Value as Json;

use super::context::{EnrollmentContext, EnrollmentRequest, Issued, unknown, use_up};
use crate::{
    change::{
        Change,
        authenticator::{self, NewAuthenticator},
    },
    entity::{Credential, Enrollment, Record, Tags},
    error::{Error, Result},
};

/// Stores the password as an authenticator and deletes the enrollment.
pub async fn redeem(context: &EnrollmentContext<'_>, enrollment: Record<Enrollment>, offer: &EnrollmentRequest) -> Result<Issued> {
    let identity = enrollment.spec.identity_id.clone().ok_or_else(unknown)?;
    let username = enrollment.spec.username.clone().ok_or_else(unknown)?;
    let given = match offer {
        EnrollmentRequest::Object(members) => members.get("password").and_then(Json::as_str).filter(|password| !password.is_empty()),
        EnrollmentRequest::Nothing | EnrollmentRequest::Text(_) => None,
    };
    let given = given.ok_or_else(|| Error::invalid("password", "is required, as a text", ""))?;
    let password = context.passwords.hash_for(context.store, &identity, context.address, given.to_owned()).await?;
    let wanted = NewAuthenticator { identity, credential: Credential::Updb { username, password }, ca: None, tags: Tags::default() };
    let work = move |change: &Change<'_, '_>| {
        use_up(change, &enrollment)?;
        authenticator::add(change, wanted)
    };
    context.changes.run(work).await?;
    Ok(Issued::default())
}
