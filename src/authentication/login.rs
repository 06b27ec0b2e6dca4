//! Logging in: a credential is judged, and a session opened.

use rustls::pki_types::CertificateDer;
use uuid::Uuid;

use super::{Passwords, mfa};
use crate::{
    change::{Change, Changes, Lifecycle, identity::disable},
    clock::Timestamp,
    entity::{ApiSession, AuthPolicy, Authenticator, ConfigType, Credential, EnvInfo, FactsExt, Id, Identity, Record, SdkInfo},
    error::{Error, Result},
    pki::{Certificate, Holdings, LeafDates, Purpose, Verification},
    store::{Read, Store},
};

/// The word for every config type.
const ALL: &str = "all";

/// An identity that proved who it is, and by which authenticator.
#[derive(Debug, Clone)]
pub struct Principal {
    pub identity: Id<Identity>,
    /// The authenticator's id.
    pub authenticator: String,
}

/// What a login says of its surroundings.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    pub env_info: Option<EnvInfo>,
    pub sdk_info: Option<SdkInfo>,
    /// Ids or names; `all` stands for every type.
    pub config_types: Vec<String>,
    pub address: String,
}

/// Judges a user name and a password. So many wrong passwords in a row as the auth policy allows lock the identity out.
///
/// # Errors
/// [`Error::InvalidAuth`], whatever the reason; [`Error::Busy`].
pub async fn password(
    store: &Store,
    changes: &Changes,
    passwords: &Passwords,
    now: Timestamp,
    username: &str,
    password: String,
) -> Result<Principal> {
    let found = store.read(|tx| tx.find_by::<Authenticator>("updbUsername", username))?;
    let stored = found.as_ref().and_then(|authenticator| match &authenticator.spec.credential {
        Credential::Updb { password, .. } => Some(password.clone()),
        Credential::Cert { .. } => None,
    });
    let right = passwords.verify(password, stored).await?;
    let authenticator = found.ok_or(Error::InvalidAuth)?;
    let (principal, updb) = store.read(|tx| {
        let principal = principal(tx, &authenticator, now, |policy| policy.spec.primary.updb.allowed)?;
        let identity = tx.get(&principal.identity)?;
        Ok((principal, tx.get(identity.spec.auth_policy())?.spec.primary.updb))
    })?;
    if right {
        passwords.forgive(&principal.identity);
        return Ok(principal);
    }
    let wrong = passwords.count_wrong(&principal.identity, now);
    if updb.max_attempts > 0 && wrong >= updb.max_attempts {
        lock_out(changes, &principal.identity, updb.lockout_duration_minutes).await?;
        passwords.forgive(&principal.identity);
    }
    Err(Error::InvalidAuth)
}

/// Disables an identity, unless it is disabled already.
async fn lock_out(changes: &Changes, identity: &Id<Identity>, minutes: i64) -> Result<()> {
    tracing::warn!(%identity, minutes, "locked out after wrong passwords");
    let id = identity.clone();
    let locked = changes.run(move |change| {
        let now = change.now();
        match change.find(&id)? {
            Some(identity) if !identity.state.is_disabled(now) => disable(change, &id, (minutes > 0).then(|| now.plus_minutes(minutes))),
            _ => Ok(()),
        }
    });
    locked.await
}

/// Judges the certificates that a connection presented.
///
/// # Errors
/// [`Error::InvalidAuth`], whatever the reason.
pub fn certificate(store: &Store, holdings: &Holdings, now: Timestamp, presented: &[CertificateDer<'_>]) -> Result<Principal> {
    let chain: Vec<Certificate> = presented.iter().map_while(|der| Certificate::from_der(der).ok()).collect();
    let leaf = chain.first().ok_or(Error::InvalidAuth)?;
    let cas = holdings.authority().cas();
    let judge = Verification { anchors: cas, intermediates: cas, now: now.seconds(), purpose: Purpose::Any, leaf_dates: LeafDates::Ignore };
    judge.anchor_of(&chain).map_err(|_| Error::InvalidAuth)?;
    store.read(|tx| {
        let authenticator = tx.find_by::<Authenticator>("certFingerprint", &leaf.fingerprint())?.ok_or(Error::InvalidAuth)?;
        let in_time = leaf.valid_at(now.seconds());
        principal(tx, &authenticator, now, |policy| {
            let cert = &policy.spec.primary.cert;
            cert.allowed && (in_time || cert.allow_expired_certs)
        })
    })
}

/// The identity of an authenticator, if it is not disabled and its policy allows the method.
fn principal(
    tx: &Read<'_>,
    authenticator: &Record<Authenticator>,
    now: Timestamp,
    allowed: impl FnOnce(&Record<AuthPolicy>) -> bool,
) -> Result<Principal> {
    let identity = tx.find(&authenticator.spec.identity_id)?.ok_or(Error::InvalidAuth)?;
    let policy = tx.get(identity.spec.auth_policy())?;
    if identity.state.is_disabled(now) || !allowed(&policy) {
        return Err(Error::InvalidAuth);
    }
    Ok(Principal { identity: identity.id, authenticator: authenticator.id.to_string() })
}

/// Opens a session for a principal.
///
/// # Errors
/// The identity has gone meanwhile, or the store refuses.
pub async fn open(changes: &Changes, principal: Principal, surroundings: Surroundings) -> Result<Record<ApiSession>> {
    changes.run(move |change| open_in(change, principal, surroundings)).await
}

fn open_in(change: &Change<'_, '_>, principal: Principal, surroundings: Surroundings) -> Result<Record<ApiSession>> {
    let mut identity = change.find(&principal.identity)?.ok_or(Error::InvalidAuth)?;
    if identity.state.is_disabled(change.now()) {
        return Err(Error::InvalidAuth);
    }
    let is_mfa_required = mfa::is_enrolled(change, &principal.identity)?;
    let config_types = config_types(change, &surroundings.config_types)?;
    if identity.state.note(surroundings.env_info, surroundings.sdk_info) {
        change.put(identity)?;
    }
    let session = ApiSession {
        token: Uuid::new_v4().to_string(),
        identity_id: principal.identity,
        authenticator_id: principal.authenticator,
        config_types,
        ip_address: surroundings.address,
        is_mfa_required,
        is_mfa_complete: false,
        last_activity_at: change.now(),
    };
    change.insert(Record::new(Id::from_text(ApiSession::new_id()), change.now(), session))
}

/// The ids of config types that are wanted; unknown ones are dropped. `all` stays the word it is: it also means types to come.
fn config_types(change: &Change<'_, '_>, wanted: &[String]) -> Result<Vec<Id<ConfigType>>> {
    if wanted.iter().any(|name| name == ALL) {
        return Ok(vec![Id::from_text(ALL)]);
    }
    let mut found = Vec::new();
    for name in wanted {
        let by_id = change.find(&Id::<ConfigType>::from_text(name.as_str()))?;
        let record = if by_id.is_some() { by_id } else { change.find_by::<ConfigType>("name", name)? };
        found.extend(record.map(|record| record.id));
    }
    found.dedup();
    Ok(found)
}
