//! Outstanding enrollments: one more for an identity, or a new token for one.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    change::enrollment,
    clock::Timestamp,
    entity::{Enrollment, Entity, FactsExt, Id, Identity, enrollment::Method},
    error::{Error, Refusal, Result},
    http::{
        answer::{Created, Page},
        argument::{Body, Query},
        call::Call,
        envelope::Detail,
        verbs::{self, Listing},
    },
};

/// GET /enrollments; the names of its fields were never told.
pub async fn list(call: Call, listing: Query<Listing>) -> Result<Page<Detail<<Enrollment as Entity>::View>>> {
    verbs::list::<Enrollment>(call, listing).await.map(|page| Page { fields: None, ..page })
}

/// How a credential is to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "IdentityEnrollmentMethod")]
pub enum EnrollmentMethod {
    Ott,
    Ottca,
    Updb,
}

/// A new enrollment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrollmentCreate {
    expires_at: Timestamp,
    identity_id: Id<Identity>,
    method: EnrollmentMethod,
    /// The authority, for method `ottca`.
    #[serde(default)]
    ca_id: Option<String>,
    /// The user name, for method `updb`.
    #[serde(default)]
    username: Option<String>,
}

/// POST /enrollments
pub async fn create(call: Call, Body(new): Body<EnrollmentCreate>) -> Result<Created> {
    if new.expires_at <= call.now {
        return Err(Error::BadReference("expiresAt is in the past".into()));
    }
    let username = new.username.filter(|name| !name.trim().is_empty());
    let method = match new.method {
        EnrollmentMethod::Ott => Method::Ott,
        EnrollmentMethod::Ottca => return Err(Error::BadReference(format!("no certificate authority {}", new.ca_id.unwrap_or_default()))),
        EnrollmentMethod::Updb if username.is_none() => return Err(Error::BadReference("a user name is required".into())),
        EnrollmentMethod::Updb => Method::Updb,
    };
    call.changes
        .run(move |change| {
            let id = &new.identity_id;
            if change.find(id)?.is_none() {
                return Err(Error::BadReference(format!("no identity {id}")));
            }
            let others = change.linked::<Enrollment>("identity", id.as_str())?;
            if others.iter().any(|other| other.spec.method == method) {
                return Err(Error::Refused(Refusal::EnrollmentExists));
            }
            let username = username.filter(|_| method == Method::Updb);
            let wanted = Enrollment { username, ..Enrollment::of_identity(method, id.clone()) };
            let made = enrollment::issue(wanted, new.expires_at, change)?;
            Ok(Created::new(&made.id))
        })
        .await
}

/// When the enrollment is to end.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrollmentRefresh {
    expires_at: Timestamp,
}

/// POST /enrollments/{id}/refresh
pub async fn refresh(call: Call, id: Id<Enrollment>, Body(new): Body<EnrollmentRefresh>) -> Result<crate::http::answer::Done> {
    let expires_at = new.expires_at;
    if expires_at <= call.now {
        return Err(Error::invalid("expiresAt", "is in the past", expires_at.to_string()));
    }
    call.changes
        .run(move |change| {
            let mut record = change.get(&id)?;
            enrollment::renew(&mut record.spec, expires_at, change)?;
            change.put(record)
        })
        .await
        .map(|()| crate::http::answer::Done)
}
