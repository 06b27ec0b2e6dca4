//! Logging in: a credential is checked and a session opened.

use rustls::pki_types::CertificateDer;
use uuid::Uuid;

use super::{
    Asker, FailureCount, Passwords, SessionSlot, mfa,
    trust::{self, Judgement},
};
use crate::{
    change::{Change, Changes, Lifecycle, identity::disable, session_certificate},
    clock::Timestamp,
    entity::{
        Action, ApiSession, AuthPolicy, Authenticator, ConfigType, Credential, EnvInfo, FactsExt, HistoryEntry, Id, Identity, LoginBasis,
        Record, SdkInfo,
    },
    error::{Error, Result},
    pki::{Certificate, Keystore},
    store::{Read, Store},
};

/// The word that stands for every config type.
const ALL: &str = "all";

/// An authenticated identity and how it proved itself.
#[derive(Clone)]
pub struct Principal {
    pub identity: Id<Identity>,
    pub basis: LoginBasis,
    /// The stored proof that the credential was compared with, if an authenticator holds it.
    pub judged: Option<String>,
    /// The client certificate of the login, if any; edge routers accept it as long as the session exists.
    pub certificate: Option<Certificate>,
}

/// What a login reports about its client.
#[derive(Debug, Clone, Default)]
pub struct ClientInfo {
    pub env_info: Option<EnvInfo>,
    pub sdk_info: Option<SdkInfo>,
    /// Ids or names; `all` means every type.
    pub config_types: Vec<String>,
    pub address: String,
}

/// Checks the asker's user name and a password. The auth policy's number of consecutive wrong passwords locks the identity out.
///
/// # Errors
/// [`Error::InvalidAuth`] for every rejection; [`Error::Busy`].
pub async fn password(
    store: &Store,
    changes: &Changes,
    passwords: &Passwords,
    now: Timestamp,
    asker: &Asker,
    password: String,
) -> Result<Principal> {
    let found = store.read(|tx| tx.find_by::<Authenticator>("updbUsername", &asker.name))?;
    let stored = found.as_ref().and_then(|authenticator| match &authenticator.spec.credential {
        Credential::Updb { password, .. } => Some(password.clone()),
        Credential::Cert { .. } => None,
    });
    let right = passwords.verify(asker, password, stored).await?;
    let authenticator = found.ok_or(Error::InvalidAuth)?;
    let principal = store.read(|tx| principal(tx, &authenticator, now, |policy| policy.spec.primary.updb.allowed))?;
    let counts = count(store, changes, passwords, &principal.identity, right, now).await?;
    if counts { Ok(principal) } else { Err(Error::InvalidAuth) }
}

/// Counts whether a password given for an identity was correct. The auth policy's number of consecutive wrong ones locks the identity out.
/// Returns whether the password is accepted: a correct one among too many wrong ones is not.
///
/// # Errors
/// The store fails.
pub async fn count(
    store: &Store,
    changes: &Changes,
    passwords: &Passwords,
    identity: &Id<Identity>,
    right: bool,
    now: Timestamp,
) -> Result<bool> {
    let updb = store.read(|tx| Ok(tx.get(tx.get(identity)?.spec.auth_policy())?.spec.primary.updb))?;
    let count = passwords.count(identity, right, updb.max_attempts, now);
    if count == FailureCount::TooMany {
        lock_out(changes, identity, updb.lockout_duration_minutes).await?;
        passwords.forgive(identity);
    }
    Ok(count == FailureCount::Right)
}

/// Disables an identity that is not disabled yet.
async fn lock_out(changes: &Changes, identity: &Id<Identity>, minutes: i64) -> Result<()> {
    tracing::warn!(%identity, minutes, "locked out after wrong passwords");
    let id = identity.clone();
    let locked = changes.run(move |change| {
        let now = change.now();
        match change.find(&id)? {
            Some(identity) if !identity.state.is_disabled(now) => {
                change
                    .tell(HistoryEntry { name: Some(identity.spec.name), ..HistoryEntry::to::<Identity>(Action::Lockout, id.as_str()) })?;
                disable(change, &id, (minutes > 0).then(|| now.plus_minutes(minutes)))
            }
            _ => Ok(()),
        }
    });
    locked.await
}

/// Checks the certificates that a connection presented.
///
/// # Errors
/// [`Error::InvalidAuth`] for every rejection.
pub fn certificate(store: &Store, keystore: &Keystore, now: Timestamp, presented: &[CertificateDer<'_>]) -> Result<Principal> {
    let chain: Vec<Certificate> = presented.iter().map_while(|der| Certificate::from_der(der).ok()).collect();
    let leaf = chain.first().ok_or(Error::InvalidAuth)?;
    let how = Judgement::of_login(now.seconds());
    let in_time = leaf.valid_at(how.now);
    let allowed = |policy: &Record<AuthPolicy>| {
        let cert = &policy.spec.primary.cert;
        cert.allowed && (in_time || cert.allow_expired_certs)
    };
    let found = store.read(|tx| {
        if !trust::is_ours(keystore, &chain, how) {
            let ca = trust::authority(tx, &chain, how, Record::lets_in)?.ok_or(Error::InvalidAuth)?;
            let claim = ca.spec.external_id_claim.and_then(|claim| claim.of(leaf)).filter(|id| !id.trim().is_empty());
            if let Some(id) = claim {
                let identity = tx.find_by::<Identity>("externalId", &id)?.ok_or(Error::InvalidAuth)?;
                return admitted(tx, identity, LoginBasis::Claim(ca.id), now, allowed);
            }
        }
        let authenticator = tx.find_by::<Authenticator>("certFingerprint", &leaf.fingerprint())?.ok_or(Error::InvalidAuth)?;
        principal(tx, &authenticator, now, allowed)
    })?;
    Ok(Principal { certificate: Some(leaf.clone()), ..found })
}

/// The principal of an authenticator, if its identity is not disabled and the policy allows the method.
fn principal(
    tx: &Read<'_>,
    authenticator: &Record<Authenticator>,
    now: Timestamp,
    allowed: impl FnOnce(&Record<AuthPolicy>) -> bool,
) -> Result<Principal> {
    let identity = tx.find(&authenticator.spec.identity_id)?.ok_or(Error::InvalidAuth)?;
    let judged = Some(authenticator.spec.credential.proof().to_owned());
    Ok(Principal { judged, ..admitted(tx, identity, LoginBasis::Authenticator(authenticator.id.clone()), now, allowed)? })
}

/// The principal of an identity, if it is not disabled and its policy allows the method.
fn admitted(
    tx: &Read<'_>,
    identity: Record<Identity>,
    basis: LoginBasis,
    now: Timestamp,
    allowed: impl FnOnce(&Record<AuthPolicy>) -> bool,
) -> Result<Principal> {
    let policy = tx.get(identity.spec.auth_policy())?;
    if identity.state.is_disabled(now) || !allowed(&policy) {
        return Err(Error::InvalidAuth);
    }
    Ok(Principal { identity: identity.id, basis, judged: None, certificate: None })
}

/// Whether a principal's credential is still valid: it may have been deleted or replaced since it was checked.
fn stands(tx: &Read<'_>, principal: &Principal) -> Result<bool> {
    Ok(match &principal.basis {
        LoginBasis::Authenticator(id) => {
            let held = tx.find(id)?;
            held.as_ref().map(|held| held.spec.credential.proof()) == principal.judged.as_deref()
        }
        LoginBasis::Claim(id) => tx.find(id)?.is_some_and(|ca| ca.lets_in_by_claim()),
        LoginBasis::Token(id) => tx.find(id)?.is_some_and(|signer| signer.spec.enabled),
    })
}

/// Opens a session for a principal in its reserved slot.
///
/// # Errors
/// The identity was deleted or disabled since, or the store fails.
pub async fn open(changes: &Changes, principal: Principal, client_info: ClientInfo, place: SessionSlot) -> Result<Record<ApiSession>> {
    let identity = principal.identity.clone();
    let job = move |change: &Change<'_, '_>| open_in(change, principal, client_info).map(|session| (session, place));
    // The slot is released when the session counts itself, even if the caller has gone, or when the write has failed.
    changes.known_as(&identity).run(job).await.map(|(session, _)| session)
}

fn open_in(change: &Change<'_, '_>, principal: Principal, client_info: ClientInfo) -> Result<Record<ApiSession>> {
    let mut identity = change.find(&principal.identity)?.ok_or(Error::InvalidAuth)?;
    if identity.state.is_disabled(change.now()) || !stands(change, &principal)? {
        return Err(Error::InvalidAuth);
    }
    let is_mfa_required = mfa::is_enrolled(change, &principal.identity)?;
    let config_types = config_types(change, &client_info.config_types)?;
    if identity.state.note(client_info.env_info, client_info.sdk_info) {
        change.put(identity)?;
    }
    let session = ApiSession {
        token: Uuid::new_v4().to_string(),
        identity_id: principal.identity,
        authenticator_id: principal.basis.authenticator_id(),
        config_types,
        ip_address: client_info.address,
        is_mfa_required,
        is_mfa_complete: false,
        last_activity_at: change.now(),
    };
    let mut session = Record::new(Id::from_text(ApiSession::new_id()), change.now(), session);
    session.state.ca_id = principal.basis.ca().cloned();
    session.state.era = change.era()?;
    let session = change.insert(session)?;
    if let Some(certificate) = principal.certificate {
        session_certificate::add(change, &session.id, &certificate)?;
    }
    Ok(session)
}

/// The ids of the wanted config types; unknown names are dropped. `all` is stored as it is: it includes future types.
fn config_types(change: &Change<'_, '_>, wanted: &[String]) -> Result<Vec<Id<ConfigType>>> {
    if wanted.iter().any(|name| name == ALL) {
        return Ok(vec![Id::from_text(ALL)]);
    }
    let mut found = Vec::new();
    for name in wanted {
        let record = change.find_named::<ConfigType>(name)?;
        found.extend(record.map(|record| record.id).filter(|id| !found.contains(id)));
    }
    Ok(found)
}
