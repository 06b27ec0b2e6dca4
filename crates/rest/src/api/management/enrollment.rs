//! Outstanding enrollments: creating one for an identity, and renewing a token.

use model::{
    clock::Timestamp,
    entity::{Ca, Enrollment, Id, Identity, Tags, TypedLookup, enrollment::Method},
    error::{Error, Result},
};
use policy::change::{Change, enrollment};
use schemars::JsonSchema;
use serde::Deserialize;
use store::Read;

use crate::{
    answer::{CreatedLocation, Data},
    call::Call,
    change_mode::{ChangeMode, ChangeOutcome},
    envelope::Location,
    extractor::Body,
};

/// The method of an enrollment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "IdentityEnrollmentMethod")]
pub(crate) enum EnrollmentMethod {
    Ott,
    Ottca,
    Updb,
}

/// A new enrollment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{ "identityId": "VbeD75dzZNfC", "method": "ott", "expiresAt": "2030-01-01T00:00:00.000Z" }]))]
pub(crate) struct EnrollmentCreate {
    expires_at: Timestamp,
    identity_id: Id<Identity>,
    method: EnrollmentMethod,
    /// The certificate authority, for method `ottca`.
    #[serde(default)]
    ca_id: Option<String>,
    /// The user name, for method `updb`.
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    tags: Tags,
}

/// POST /enrollments
pub(crate) async fn create(
    call: Call,
    Body(new): Body<EnrollmentCreate>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<CreatedLocation>> {
    if new.expires_at <= call.now {
        return Err(Error::BadReference("expiresAt is in the past".into()));
    }
    let (expires_at, tags) = (new.expires_at, new.tags.clone());
    tags.check("tags")?;
    let wanted = call
        .changes
        .sign(call.state.store.read(|tx| wanted(tx, new))?, expires_at)?;
    let issue = move |change: &Change<'_, '_>| {
        enrollment::issue_once(wanted, tags, change).map(|made| CreatedLocation::new(&made.id))
    };
    mode.run(&call, issue).await
}

/// The requested enrollment, if everything that it names exists.
fn wanted(tx: &Read<'_>, new: EnrollmentCreate) -> Result<Enrollment> {
    let missing = |what: &str| Error::BadReference(format!("no {what}"));
    let identity = new.identity_id;
    if tx.find(&identity)?.is_none() {
        return Err(missing("such identity"));
    }
    match new.method {
        EnrollmentMethod::Ott => Ok(Enrollment::of_identity(Method::Ott, identity)),
        EnrollmentMethod::Ottca => {
            let id: Id<Ca> = new
                .ca_id
                .map(Id::from_text)
                .ok_or_else(|| missing("certificate authority is named"))?;
            tx.find(&id)?
                .ok_or_else(|| missing("such certificate authority"))?;
            Ok(Enrollment {
                ca_id: Some(id),
                ..Enrollment::of_identity(Method::OttCa, identity)
            })
        }
        EnrollmentMethod::Updb => {
            let username = new
                .username
                .filter(|name| !name.trim().is_empty())
                .ok_or_else(|| missing("user name is given"))?;
            Ok(Enrollment {
                username: Some(username),
                ..Enrollment::of_identity(Method::Updb, identity)
            })
        }
    }
}

/// The new expiry of the enrollment.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnrollmentRefresh {
    expires_at: Timestamp,
}

/// POST /enrollments/{id}/refresh
pub(crate) async fn refresh(
    call: Call,
    id: Id<Enrollment>,
    Body(new): Body<EnrollmentRefresh>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<Data<Location>>> {
    let expires_at = new.expires_at;
    if expires_at <= call.now {
        return Err(Error::invalid(
            "expiresAt",
            "is in the past",
            expires_at.to_string(),
        ));
    }
    let renewed = call
        .changes
        .sign(call.state.store.read(|tx| tx.get(&id))?.spec, expires_at)?;
    let refresh = move |change: &Change<'_, '_>| {
        let mut record = change.get(&id)?;
        record.spec = enrollment::up_to_date(renewed, change)?;
        let place = Location::of(&record.id);
        change.put(record).map(|()| Data(place))
    };
    mode.run(&call, refresh).await
}
