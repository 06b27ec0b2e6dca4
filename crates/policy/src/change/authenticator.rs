//! Authenticators: creation, the changes allowed, and re-enrollment.

use model::{
    clock::Timestamp,
    entity::{
        ApiSession, Authenticator, Ca, Credential, Enrollment, Id, Identity, Record, Tags,
        TypedLookup, authenticator::ExtensionRequest, enrollment::Method,
    },
    error::{Error, Refusal, Result},
};

use super::{Change, Lifecycle, enrollment, ids::short_id};

impl Lifecycle for Authenticator {
    fn new_id() -> String {
        short_id()
    }
}

/// A credential to add to an identity.
pub struct NewAuthenticator {
    pub identity: Id<Identity>,
    pub credential: Credential,
    /// The third-party authority that issued the certificate, if one did.
    pub ca: Option<Id<Ca>>,
    pub tags: Tags,
}

/// Adds a credential to an identity.
///
/// # Errors
/// [`Error::CertificateInUse`], [`Error::Duplicate`] for a user name that is taken, or
/// [`Error::NotFound`] for the identity.
pub fn add(change: &Change<'_, '_>, wanted: NewAuthenticator) -> Result<Record<Authenticator>> {
    add_as(change, Id::from_text(Authenticator::new_id()), wanted)
}

/// [`add`] with an id made before.
///
/// # Errors
/// As in [`add`].
pub(super) fn add_as(
    change: &Change<'_, '_>,
    id: Id<Authenticator>,
    wanted: NewAuthenticator,
) -> Result<Record<Authenticator>> {
    if let Some(fingerprint) = wanted.credential.fingerprint()
        && change
            .read()
            .any::<Authenticator>("certFingerprint", fingerprint)?
    {
        return Err(Error::CertificateInUse {
            fingerprint: fingerprint.into(),
        });
    }
    let spec = Authenticator {
        identity_id: wanted.identity,
        credential: wanted.credential,
    };
    let mut record = Record::new(id, change.now(), spec);
    record.state.ca_id = wanted.ca;
    record.tags = wanted.tags;
    change.insert(record)
}

/// The changes to a password authenticator; `None` leaves a member as it is.
#[derive(Default)]
pub struct PasswordEdit {
    pub username: Option<String>,
    /// A PHC string.
    pub password: Option<String>,
    pub tags: Option<Tags>,
}

/// Applies an edit to an authenticator that this transaction has read. A new password ends the
/// sessions that the old one opened, except `spared`, the session in which the owner sets it.
///
/// # Errors
/// It is for certificates, or the user name is taken.
pub fn edit(
    change: &Change<'_, '_>,
    old: Record<Authenticator>,
    edit: PasswordEdit,
    spared: Option<&Id<ApiSession>>,
) -> Result<()> {
    let id = old.id.clone();
    let mut record = old.clone();
    let Credential::Updb { username, password } = &mut record.spec.credential else {
        return Err(Error::Refused(Refusal::CannotUpdateAuthenticator));
    };
    if edit.username.is_none() && edit.password.is_none() && edit.tags.is_none() {
        return Ok(());
    }
    let is_new = edit.password.is_some();
    *username = edit.username.unwrap_or_else(|| std::mem::take(username));
    *password = edit.password.unwrap_or_else(|| std::mem::take(password));
    record.tags = edit.tags.unwrap_or(record.tags);
    record.tags.check("tags")?;
    change.check_amounts(Some(&old), &record)?;
    change.replace(old, record)?;
    if is_new {
        end_sessions(change, &id, spared)
    } else {
        Ok(())
    }
}

/// Ends the sessions that a credential opened, except `spared`.
fn end_sessions(
    change: &Change<'_, '_>,
    id: &Id<Authenticator>,
    spared: Option<&Id<ApiSession>>,
) -> Result<()> {
    const FIELD: &str = "authenticator";
    if let Some(spared) = spared
        && let Some(mut session) = change.find(spared)?
        && change
            .tx()
            .would_write_tombstone::<ApiSession>(FIELD, id.as_str())?
    {
        session.state.epoch = change.read().epoch()?.saturating_add(1);
        change.put(session)?;
    }
    let ended = change
        .tx()
        .few_or_tombstone::<ApiSession>(FIELD, id.as_str())?;
    ended
        .into_iter()
        .filter(|session| Some(&session.id) != spared)
        .try_for_each(|session| change.delete_record(session))
}

/// Asks the holder of a certificate to renew it: the sessions that it opens say so, until it is
/// renewed.
///
/// # Errors
/// There is no such authenticator, or it is no certificate of this controller, which cannot renew
/// any other.
pub fn request_extension(
    change: &Change<'_, '_>,
    id: &Id<Authenticator>,
    roll_keys: bool,
) -> Result<()> {
    let mut record = change.get(id)?;
    if !record.is_issued_by_network() {
        return Err(Error::Refused(Refusal::CannotUpdateAuthenticator));
    }
    record.state.extension = Some(ExtensionRequest {
        roll_keys,
        at: change.now(),
    });
    change.put(record)
}

/// Deletes a credential, ends its sessions, and issues an enrollment for a new credential of the
/// same kind.
///
/// # Errors
/// There is no such authenticator, `expires_at` is in the past, or such an enrollment exists
/// already.
pub fn re_enroll(
    change: &Change<'_, '_>,
    id: &Id<Authenticator>,
    expires_at: Timestamp,
) -> Result<Record<Enrollment>> {
    let record = change.get(id)?;
    if expires_at <= change.now() {
        return Err(Error::BadReference("expiresAt is in the past".into()));
    }
    let (identity, username) = (
        record.spec.identity_id,
        record.spec.credential.username().map(str::to_owned),
    );
    let method = match (&username, &record.state.ca_id) {
        (Some(_), _) => Method::Updb,
        (None, Some(_)) => Method::OttCa,
        (None, None) => Method::Ott,
    };
    let wanted = Enrollment {
        username,
        ca_id: record.state.ca_id,
        ..Enrollment::of_identity(method, identity)
    };
    change.delete(id)?;
    enrollment::issue_once(change.sign(wanted, expires_at)?, Tags::default(), change)
}
