//! The second factor of an identity: enrolling, verifying, completing a login, removing. Each step
//! is part of a change.

use model::{
    entity::{
        ApiSession, AuthQuery, Entity, Id, Identity, Mfa, Record, TypedLookup, mfa::CodePurpose,
        missing,
    },
    error::{Error, Refusal, Result},
};
use store::Read;

use super::{Attempt, Caller, Codes};
use crate::change::{Change, Lifecycle};

/// The second factor of an identity, verified or not.
///
/// # Errors
/// [`Error::NotFound`].
pub fn of(tx: &Read<'_>, identity: &Id<Identity>) -> Result<Record<Mfa>> {
    find(tx, identity)?.ok_or_else(|| missing(Mfa::KIND, identity))
}

/// The verified second factor of an identity.
///
/// # Errors
/// [`Error::NotFound`].
pub(crate) fn verified(tx: &Read<'_>, identity: &Id<Identity>) -> Result<Record<Mfa>> {
    of(tx, identity).and_then(|mfa| in_state(mfa, true))
}

/// Whether an identity has a verified second factor.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn is_enrolled(tx: &Read<'_>, identity: &Id<Identity>) -> Result<bool> {
    Ok(find(tx, identity)?.is_some_and(|mfa| mfa.spec.is_verified))
}

/// The second factor of an identity that is not verified yet.
///
/// # Errors
/// [`Error::NotFound`].
pub fn unverified(tx: &Read<'_>, identity: &Id<Identity>) -> Result<Record<Mfa>> {
    of(tx, identity).and_then(|mfa| in_state(mfa, false))
}

fn find(tx: &Read<'_>, identity: &Id<Identity>) -> Result<Option<Record<Mfa>>> {
    tx.find_by::<Mfa>("identity", identity.as_str())
}

fn in_state(mfa: Record<Mfa>, verified: bool) -> Result<Record<Mfa>> {
    if mfa.spec.is_verified == verified {
        Ok(mfa)
    } else {
        Err(missing(Mfa::KIND, &mfa.spec.identity_id))
    }
}

/// Rejects a caller that lacks a required external token: it may neither enroll a second factor nor
/// read one being enrolled. Otherwise a stranger who knows the password could do both.
///
/// # Errors
/// [`Error::Unauthorized`].
pub fn may_set_up(caller: &Caller) -> Result<()> {
    if caller.queries.iter().any(AuthQuery::is_token) {
        Err(Error::Unauthorized { anonymous: false })
    } else {
        Ok(())
    }
}

/// Enrolls a second factor.
///
/// # Errors
/// [`Refusal::MfaExists`].
pub fn enroll(change: &Change<'_, '_>, codes: &Codes, identity: &Id<Identity>) -> Result<Id<Mfa>> {
    if find(change.read(), identity)?.is_some() {
        return Err(Error::Refused(Refusal::MfaExists));
    }
    let record = Record::new(
        Id::from_text(Mfa::new_id()),
        change.now(),
        codes.create(identity)?,
    );
    change.insert(record).map(|record| record.id)
}

/// Verifies a second factor with a one-time code, which proves that the app has the secret. Later
/// logins require a code; this session counts as complete.
///
/// # Errors
/// [`Refusal::MfaInvalidToken`]; the factor stays unverified. [`Error::NotFound`].
pub fn verify(
    change: &Change<'_, '_>,
    codes: &Codes,
    session: &Record<ApiSession>,
    attempt: &Attempt,
) -> Result<()> {
    let mut mfa = unverified(change.read(), &session.spec.identity_id)?;
    codes.verify(&mut mfa, attempt, CodePurpose::Verify, change.now())?;
    mfa.spec.is_verified = true;
    change.put(mfa)?;
    complete(change, &session.id)
}

/// Completes a session with a one-time code or a recovery code. A one-time code completes only one
/// session.
///
/// # Errors
/// [`Refusal::MfaNotEnrolled`], [`Refusal::MfaInvalidToken`].
pub fn enter(
    change: &Change<'_, '_>,
    codes: &Codes,
    session: &Record<ApiSession>,
    attempt: &Attempt,
) -> Result<()> {
    let mfa = find(change.read(), &session.spec.identity_id)?.filter(|mfa| mfa.spec.is_verified);
    let mut mfa = mfa.ok_or(Error::Refused(Refusal::MfaNotEnrolled))?;
    codes.verify(&mut mfa, attempt, CodePurpose::Enter, change.now())?;
    change.put(mfa)?;
    complete(change, &session.id)
}

/// The second factor, for its recovery codes; requires a one-time code.
///
/// # Errors
/// [`Refusal::MfaInvalidToken`]; [`Error::NotFound`].
pub fn show(
    change: &Change<'_, '_>,
    codes: &Codes,
    identity: &Id<Identity>,
    attempt: &Attempt,
) -> Result<Record<Mfa>> {
    let mut mfa = verified(change.read(), identity)?;
    codes.verify(&mut mfa, attempt, CodePurpose::Show, change.now())?;
    change.put(mfa.clone())?;
    Ok(mfa)
}

/// Makes new recovery codes.
///
/// # Errors
/// [`Refusal::MfaInvalidToken`]; [`Error::NotFound`].
pub fn renew(
    change: &Change<'_, '_>,
    codes: &Codes,
    identity: &Id<Identity>,
    attempt: &Attempt,
) -> Result<()> {
    let mut mfa = verified(change.read(), identity)?;
    codes.verify(&mut mfa, attempt, CodePurpose::Renew, change.now())?;
    codes.renew(&mut mfa.spec)?;
    change.put(mfa)
}

/// Removes a second factor at its owner's request. A verified factor requires a code.
///
/// # Errors
/// [`Refusal::MfaInvalidToken`]; [`Error::NotFound`].
pub fn remove(
    change: &Change<'_, '_>,
    codes: &Codes,
    identity: &Id<Identity>,
    attempt: &Attempt,
) -> Result<()> {
    let mut mfa = of(change.read(), identity)?;
    if mfa.spec.is_verified {
        codes.verify(&mut mfa, attempt, CodePurpose::Remove, change.now())?;
    }
    change.delete(&mfa.id)
}

/// Removes the second factor of an identity, if any, without a code. Open sessions stay as they
/// are.
///
/// # Errors
/// [`Error::NotFound`]: the identity does not exist.
pub fn remove_without_code(change: &Change<'_, '_>, identity: &Id<Identity>) -> Result<()> {
    change.get(identity)?;
    find(change.read(), identity)?.map_or(Ok(()), |mfa| change.delete_record(mfa))
}

fn complete(change: &Change<'_, '_>, session: &Id<ApiSession>) -> Result<()> {
    let mut session = change
        .find(session)?
        .ok_or(Error::Unauthorized { anonymous: false })?;
    (session.spec.is_mfa_required, session.spec.is_mfa_complete) = (true, true);
    session.state.passed_at = Some(change.now());
    change.put(session)
}
