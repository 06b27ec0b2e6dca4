//! Logging in: a credential is checked and a session opened.

use model::{
    clock::Timestamp,
    entity::{
        Action, ApiSession, AuthPolicy, Authenticator, Ca, ConfigType, Credential, EnvInfo,
        HistoryEntry, Id, Identity, LoginBasis, Record, SdkInfo, TypedLookup, auth_policy::Updb,
    },
    error::{Error, Result},
    hidden_text,
};
use pki::{Certificate, Keystore};
use rustls::pki_types::CertificateDer;
use store::{Read, Store};
use uuid::Uuid;

use super::{
    Caller, FailureCount, Passwords, Requester, SessionSlot, mfa,
    trust::{self, ChainPolicy},
};
use crate::change::{Change, Changes, Lifecycle, identity::disable, session_certificate};

/// A proven credential and its identity. The transaction that opens a session decides whether they
/// are sufficient, after it has read the identity and its auth policy.
#[derive(Clone)]
pub struct Principal {
    pub identity: Id<Identity>,
    pub basis: LoginBasis,
    /// The stored proof that the credential was compared with, if an authenticator holds it.
    pub(crate) judged: Option<String>,
    /// The client certificate of the login, if any; edge routers accept it as long as the session
    /// exists.
    pub certificate: Option<Certificate>,
}

impl Principal {
    /// The owner of a credential.
    fn of(authenticator: Record<Authenticator>) -> Self {
        let judged = Some(authenticator.spec.credential.proof().to_owned());
        let basis = LoginBasis::Authenticator(authenticator.id);
        Self {
            identity: authenticator.spec.identity_id,
            basis,
            judged,
            certificate: None,
        }
    }

    /// The identity for which the owner of the host made a link.
    pub fn by_link(identity: Id<Identity>) -> Self {
        Self {
            identity,
            basis: LoginBasis::Link,
            judged: None,
            certificate: None,
        }
    }

    /// Whether an auth policy allows the method of this log-in. Links are always allowed: the owner
    /// of the host may change every policy anyway.
    fn is_allowed(&self, policy: &AuthPolicy, now: Timestamp) -> bool {
        let AuthPolicy { primary, .. } = policy;
        match (&self.basis, &self.certificate) {
            (LoginBasis::Token(signer), _) => primary.ext_jwt.lets_in(signer),
            (LoginBasis::Link, _) => true,
            (_, Some(leaf)) => {
                primary.cert.allowed
                    && (primary.cert.allow_expired_certs || leaf.valid_at(now.seconds()))
            }
            (_, None) => primary.updb.allowed,
        }
    }
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

/// Checks the asker's user name and a password. Too many consecutive wrong passwords, by the limit
/// of the auth policy, lock the identity out.
///
/// # Errors
/// [`Error::InvalidAuth`] for a wrong password; [`Error::Busy`].
pub async fn password(
    store: &Store,
    changes: &Changes,
    passwords: &Passwords,
    now: Timestamp,
    asker: &Requester,
    password: String,
) -> Result<Principal> {
    let found = store.read(|tx| tx.find_by::<Authenticator>("updbUsername", &asker.name))?;
    let stored = found
        .as_ref()
        .and_then(|authenticator| match &authenticator.spec.credential {
            Credential::Updb { password, .. } => Some(password.clone()),
            Credential::Cert { .. } => None,
        });
    let right = passwords.verify(asker, password, stored).await?;
    let principal = Principal::of(found.ok_or(Error::InvalidAuth)?);
    let wrong = if right {
        None
    } else {
        Some(store.read(|tx| rules(tx, &principal.identity, now))?)
    };
    let counts = count(changes, passwords, &principal.identity, wrong.as_ref(), now).await?;
    if counts {
        Ok(principal)
    } else {
        Err(Error::InvalidAuth)
    }
}

/// The rules for wrong passwords of an identity that may log in with one.
fn rules(tx: &Read<'_>, identity: &Id<Identity>, now: Timestamp) -> Result<Updb> {
    let identity = tx
        .find(identity)?
        .filter(|identity| !identity.state.is_disabled(now))
        .ok_or(Error::InvalidAuth)?;
    let updb = tx.get(identity.spec.auth_policy())?.spec.primary.updb;
    if updb.allowed {
        Ok(updb)
    } else {
        Err(Error::InvalidAuth)
    }
}

/// Counts a correct or wrong password given for an identity. Too many consecutive wrong passwords,
/// by the limit of the identity's auth policy, lock the identity out. Returns whether the password
/// is accepted: a correct one among too many wrong ones is not.
///
/// # Errors
/// The store fails.
pub async fn count(
    changes: &Changes,
    passwords: &Passwords,
    identity: &Id<Identity>,
    wrong: Option<&Updb>,
    now: Timestamp,
) -> Result<bool> {
    let most = wrong.map_or(0, |rules| rules.max_attempts);
    let count = passwords.count(identity, wrong.is_none(), most, now);
    if count == FailureCount::TooMany {
        let is_locked = lock_out(changes, passwords, identity).await?;
        passwords.begin_again(identity, is_locked, now);
    }
    Ok(count == FailureCount::Right)
}

/// Disables an identity that is not disabled yet, for as long as its auth policy says, or longer if
/// it was locked out before. Returns whether it was not disabled.
async fn lock_out(
    changes: &Changes,
    passwords: &Passwords,
    identity: &Id<Identity>,
) -> Result<bool> {
    let (id, passwords) = (identity.clone(), passwords.clone());
    let locked = changes.run(move |change| {
        let now = change.now();
        let Some(identity) = change
            .find(&id)?
            .filter(|identity| !identity.state.is_disabled(now))
        else {
            return Ok(false);
        };
        let minutes = change
            .get(identity.spec.auth_policy())?
            .spec
            .primary
            .updb
            .lockout_duration_minutes;
        let minutes = passwords.lockout(&id, minutes);
        tracing::warn!(identity = %id, minutes, "locked out after wrong passwords");
        // Whoever knows a user name can cause it.
        change.act_for_client();
        change.tx().append_history(HistoryEntry {
            name: Some(identity.spec.name),
            ..HistoryEntry::to::<Identity>(Action::Lockout, id.as_str())
        })?;
        disable(
            change,
            &id,
            (minutes > 0).then(|| now.plus_minutes(minutes)),
        )
        .map(|()| true)
    });
    locked.await
}

/// Checks the certificates that a connection presented.
///
/// # Errors
/// [`Error::InvalidAuth`] if they belong to no identity.
pub fn certificate(
    store: &Store,
    keystore: &Keystore,
    now: Timestamp,
    presented: &[CertificateDer<'_>],
) -> Result<Principal> {
    let chain: Vec<Certificate> = presented
        .iter()
        .map_while(|der| Certificate::from_der(der).ok())
        .collect();
    let leaf = chain.first().ok_or(Error::InvalidAuth)?;
    let how = ChainPolicy::of_login(now.seconds());
    let found = store.read(|tx| {
        if !trust::is_ours(keystore, &chain, how) {
            let ca =
                trust::authority(tx, &chain, how, Record::lets_in)?.ok_or(Error::InvalidAuth)?;
            let claim = ca
                .spec
                .external_id_claim
                .and_then(|claim| claim.value_in(leaf))
                .filter(|id| !id.trim().is_empty());
            if let Some(id) = claim {
                if hidden_text::is_in(&id) {
                    return Err(Error::InvalidAuth);
                }
                let identity = tx
                    .find_id_by::<Identity>("externalId", &id)?
                    .ok_or(Error::InvalidAuth)?;
                return Ok(Principal {
                    identity,
                    basis: LoginBasis::Claim(ca.id),
                    judged: None,
                    certificate: None,
                });
            }
        }
        tx.find_by::<Authenticator>("certFingerprint", &leaf.fingerprint())?
            .map(Principal::of)
            .ok_or(Error::InvalidAuth)
    })?;
    Ok(Principal {
        certificate: Some(leaf.clone()),
        ..found
    })
}

/// Whether a principal's credential is still valid: it may have been deleted or replaced since it
/// was checked.
fn is_still_valid(tx: &Read<'_>, principal: &Principal) -> Result<bool> {
    Ok(match &principal.basis {
        LoginBasis::Authenticator(id) => {
            let held = tx.find(id)?;
            held.as_ref().map(|held| held.spec.credential.proof()) == principal.judged.as_deref()
        }
        LoginBasis::Claim(id) => tx.find(id)?.is_some_and(|ca| ca.lets_in_by_claim()),
        LoginBasis::Token(id) => tx.find(id)?.is_some_and(|signer| signer.spec.enabled),
        LoginBasis::Link => true,
    })
}

/// Opens a session for a principal in its reserved slot. Returns its caller.
///
/// # Errors
/// [`Error::InvalidAuth`] if the identity does not exist or is disabled, its auth policy does not
/// allow the method, or the credential is no longer valid; or the store fails.
pub async fn open(
    changes: &Changes,
    principal: Principal,
    client_info: ClientInfo,
    place: SessionSlot,
) -> Result<Caller> {
    let job = move |change: &Change<'_, '_>| {
        open_in(change, principal, client_info).map(|caller| (caller, place))
    };
    // The job holds the slot until the session is counted or the write has failed, even if the
    // caller is gone.
    changes.run(job).await.map(|(caller, _)| caller)
}

fn open_in(
    change: &Change<'_, '_>,
    principal: Principal,
    client_info: ClientInfo,
) -> Result<Caller> {
    let stored = change
        .find(&principal.identity)?
        .ok_or(Error::InvalidAuth)?;
    let policy = change.get(stored.spec.auth_policy())?.spec;
    let now = change.now();
    if stored.state.is_disabled(now)
        || !principal.is_allowed(&policy, now)
        || !is_still_valid(change.read(), &principal)?
    {
        return Err(Error::InvalidAuth);
    }
    let basis = (
        principal.basis.authenticator_id(),
        principal.basis.ca().cloned(),
    );
    let (session, identity) = begin(change, stored, basis, client_info)?;
    if let Some(certificate) = principal.certificate {
        session_certificate::add(change, &session.id, &certificate)?;
    }
    Caller::of(session, identity, &policy, change)
}

/// Opens a session for the tunneler of a router, which has proven its certificate on its
/// connection. The session has no authenticator.
///
/// # Errors
/// [`Error::InvalidAuth`] if the identity of the router does not exist or is disabled; or the store
/// fails.
pub async fn open_for_router(
    changes: &Changes,
    id: Id<Identity>,
    client_info: ClientInfo,
    place: SessionSlot,
) -> Result<Caller> {
    let job = move |change: &Change<'_, '_>| {
        let stored = change
            .find(&id)?
            .filter(|identity| !identity.state.is_disabled(change.now()))
            .ok_or(Error::InvalidAuth)?;
        let policy = change.get(stored.spec.auth_policy())?.spec;
        let (session, identity) = begin(change, stored, (String::new(), None), client_info)?;
        Caller::of(session, identity, &policy, change).map(|caller| (caller, place))
    };
    changes.run(job).await.map(|(caller, _)| caller)
}

/// Stores a session of an identity. `basis` is the authenticator id, and the authority if a claim
/// opens it.
fn begin(
    change: &Change<'_, '_>,
    stored: Record<Identity>,
    (authenticator_id, ca_id): (String, Option<Id<Ca>>),
    client_info: ClientInfo,
) -> Result<(Record<ApiSession>, Record<Identity>)> {
    let now = change.now();
    change.tx().known_as(&stored.id, &stored.spec.name);
    let is_mfa_required = mfa::is_enrolled(change.read(), &stored.id)?;
    let config_types = config_types(change.read(), &client_info.config_types)?;
    let mut identity = stored.clone();
    if identity
        .state
        .note(client_info.env_info, client_info.sdk_info)
    {
        change.replace(stored, identity.clone())?;
    }
    let session = ApiSession {
        token: Uuid::new_v4().to_string(),
        identity_id: identity.id.clone(),
        authenticator_id,
        config_types,
        ip_address: client_info.address,
        is_mfa_required,
        is_mfa_complete: false,
        last_activity_at: now,
    };
    let mut session = Record::new(Id::from_text(ApiSession::new_id()), now, session);
    session.state.ca_id = ca_id;
    session.state.epoch = change.read().epoch()?;
    Ok((change.insert(session)?, identity))
}

/// The ids of the wanted config types; unknown names are dropped. [`ConfigType::ALL`] is stored as
/// it is: it includes future types.
pub fn config_types(tx: &Read<'_>, wanted: &[String]) -> Result<Vec<Id<ConfigType>>> {
    if wanted.iter().any(|name| name == ConfigType::ALL) {
        return Ok(vec![Id::from_text(ConfigType::ALL)]);
    }
    let mut found = Vec::new();
    for name in wanted {
        let record = tx.find_named::<ConfigType>(name)?;
        found.extend(
            record
                .map(|record| record.id)
                .filter(|id| !found.contains(id)),
        );
    }
    Ok(found)
}
