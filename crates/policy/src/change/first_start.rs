//! The first start: the content of a new file, and the repair if that start ended before the
//! administrator's password was shown.

use model::{
    clock::Timestamp,
    config::PasswordConfig,
    entity::{
        AuthPolicy, Authenticator, ConfigType, Credential, Id, Identity, Lookup, Record,
        TypedLookup,
        builtin::{self, Shipped},
    },
    error::{Error, Result},
};
use pki::{AlternativeNames, Material, Seal};
use store::{Read, Store, Tx};
use zeroize::Zeroizing;

use super::{
    built_in_router, certificates,
    sealed_keys::{SealedKeys, Secret},
};

/// The setting with the hash of a generated password that has not been shown yet.
const UNSEEN: &str = "unseen-password";
/// The setting with the built-in config types that the file got.
const SHIPPED: &str = "built-in-config-types";

/// The administrator of a new controller.
pub struct Administrator {
    pub username: String,
    /// A PHC string.
    pub password: String,
    /// Whether the password was generated and has not been shown.
    pub is_unseen: bool,
}

impl Administrator {
    fn note(&self, tx: &Tx<'_>) -> Result<()> {
        tx.set_setting(UNSEEN, self.is_unseen.then_some(self.password.as_bytes()))
    }
}

/// The parameters of a new file.
pub struct NewFile {
    /// The hosts that the listener's certificate names.
    pub hosts: AlternativeNames,
    /// `None` if records of another controller follow, one of which is an administrator.
    pub administrator: Option<Administrator>,
    /// Whether the built-in router is enabled; it is then open to everybody.
    pub router: bool,
    /// The passwords that the default auth policy allows.
    pub passwords: PasswordRules,
}

/// The rules for passwords in the default auth policy of a new file.
#[derive(Debug, Clone, Copy)]
pub struct PasswordRules {
    pub(crate) min_length: i64,
    pub(crate) max_attempts: i64,
    pub(crate) lockout_minutes: i64,
}

impl PasswordRules {
    /// Those of the configuration.
    pub fn of(passwords: &PasswordConfig) -> Self {
        let PasswordConfig {
            min_length,
            max_attempts,
            lockout_minutes,
            ..
        } = *passwords;
        Self {
            min_length,
            max_attempts,
            lockout_minutes,
        }
    }

    fn policy(self, now: Timestamp) -> Record<AuthPolicy> {
        let mut policy = builtin::auth_policy(now);
        let updb = &mut policy.spec.primary.updb;
        (updb.min_password_length, updb.max_attempts) = (self.min_length, self.max_attempts);
        updb.lockout_duration_minutes = self.lockout_minutes;
        policy
    }
}

/// Fills a new file in one transaction: keys and certificates (sealed), the built-in records and
/// the administrator.
///
/// # Errors
/// The store rejects a record, or there is no randomness.
pub fn first_start(store: &Store, sealed_keys: &SealedKeys, filling: NewFile) -> Result<()> {
    let sealed_keys = sealed_keys.clone();
    store.write_blocking(move |tx| {
        let now = model::entity::Lookup::now(tx);
        let material = Material::generate(&filling.hosts, now.seconds())
            .map_err(|e| Error::Internal(format!("making keys: {e}")))?;
        sealed_keys.save_derivation(tx)?;
        certificates::keep(tx, &sealed_keys, &material)?;
        builtin::identity_types(now)
            .into_iter()
            .try_for_each(|record| tx.insert(record))?;
        builtin::posture_check_types(now)
            .into_iter()
            .try_for_each(|record| tx.insert(record))?;
        builtin::config_types(now)?
            .into_iter()
            .try_for_each(|record| tx.insert(record))?;
        tx.set_setting(SHIPPED, Some(Shipped::all().setting().as_bytes()))?;
        tx.insert(filling.passwords.policy(now))?;
        if filling.router {
            built_in_router::add_open(tx, now)?;
        }
        filling
            .administrator
            .map_or(Ok(()), |administrator| add(tx, now, administrator))
    })
}

/// Whether a user's password was generated and has not been shown. A password that the operator has
/// set meanwhile has another hash.
///
/// # Errors
/// The file cannot be read.
pub fn is_unseen(store: &Store, username: &str) -> Result<bool> {
    store.read(|read| Ok(unseen(read, username)?.is_some()))
}

/// Replaces the administrator's password if it was generated and not shown.
///
/// # Errors
/// The file cannot be read or written.
pub fn replace_unseen(store: &Store, administrator: Administrator) -> Result<()> {
    store.write_blocking(move |tx| {
        let Some(mut record) = unseen(tx.read(), &administrator.username)? else {
            return Ok(());
        };
        administrator.note(tx)?;
        record.updated_at = tx.now();
        record.spec.credential = Credential::Updb {
            username: administrator.username,
            password: administrator.password,
        };
        tx.put(record)
    })
}

/// Records that the password was shown.
///
/// # Errors
/// The file cannot be written.
pub fn note_seen(store: &Store) -> Result<()> {
    store.write_blocking(|tx| tx.set_setting(UNSEEN, None))
}

/// Gives an existing file the built-in config types of this release, and the schemas of this
/// release to those that it got earlier. A type that an administrator changed or made is left
/// unchanged; a deleted one is not created again.
///
/// # Errors
/// The file cannot be read or written.
pub fn renew_config_types(store: &Store) -> Result<()> {
    let (mut shipped, outdated, lacking) = store.read(|read| {
        let shipped = Shipped::read(read.setting(SHIPPED)?.as_deref());
        let (mut outdated, mut lacking) = (Vec::new(), Vec::new());
        for id in shipped.ids() {
            if let Some(stored) = read.find(&id)? {
                outdated.extend(builtin::renewed(&stored)?);
            }
        }
        for record in shipped.lacking(read.now())? {
            if read.find(&record.id)?.is_none()
                && read
                    .find_by::<ConfigType>("name", &record.spec.name)?
                    .is_none()
            {
                lacking.push(record);
            }
        }
        Ok((shipped, outdated, lacking))
    })?;
    if outdated.is_empty() && lacking.is_empty() {
        return Ok(());
    }
    tracing::info!(
        schemas = outdated.len(),
        added = lacking.len(),
        "updating the built-in config types"
    );
    store.write_blocking(move |tx| {
        outdated.into_iter().try_for_each(|record| tx.put(record))?;
        for record in lacking {
            shipped.add(&record.id);
            tx.insert(record)?;
        }
        tx.set_setting(SHIPPED, Some(shipped.setting().as_bytes()))
    })
}

fn unseen(read: &Read<'_>, username: &str) -> Result<Option<Record<Authenticator>>> {
    let Some(noted) = read.setting(UNSEEN)? else {
        return Ok(None);
    };
    let found = read.find_by::<Authenticator>("updbUsername", username)?;
    Ok(found.filter(|record| record.spec.credential.proof().as_bytes() == noted))
}

fn add(tx: &Tx<'_>, now: Timestamp, administrator: Administrator) -> Result<()> {
    administrator.note(tx)?;
    let Administrator {
        username, password, ..
    } = administrator;
    let id = super::ids::short_id();
    let mut identity = Record::new(
        Id::from_text(id.as_str()),
        now,
        Identity::named("Default Admin"),
    );
    identity.spec.is_admin = true;
    identity.state.is_default_admin = true;
    tx.insert(identity)?;
    let credential = Credential::Updb { username, password };
    let authenticator = Authenticator {
        identity_id: Id::from_text(id),
        credential,
    };
    tx.insert(Record::new(
        Id::from_text(super::ids::short_id()),
        now,
        authenticator,
    ))
}

/// The seal for secrets in records. A file without a key for it gets one.
///
/// # Errors
/// The stored key cannot be read, or there is no randomness.
pub fn seal(store: &Store, sealed_keys: &SealedKeys) -> Result<Seal> {
    let sealed_keys = sealed_keys.clone();
    store.write_blocking(move |tx| {
        if let Some(seal) = stored_seal(tx.read(), &sealed_keys)? {
            return Ok(seal);
        }
        let made = |e| Error::Internal(format!("making a key: {e}"));
        let key = Zeroizing::new(Seal::new_key().map_err(made)?);
        sealed_keys.save(tx, Secret::SEAL, key.as_ref())?;
        Seal::new(key.as_ref()).map_err(made)
    })
}

/// Like [`seal`]; `None` if the file has no key for it.
///
/// # Errors
/// [`Error::Damaged`]; the file cannot be read.
pub fn stored_seal(read: &Read<'_>, sealed_keys: &SealedKeys) -> Result<Option<Seal>> {
    let key = sealed_keys.find(read, Secret::SEAL)?;
    key.map(|key| Seal::new(&key).map_err(|_| Secret::SEAL.damaged("it is not a key")))
        .transpose()
}
