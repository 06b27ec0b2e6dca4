//! The first start: what a new file holds before anybody asked for anything.

use super::{
    certificates,
    vault::{Secret, Vault},
};
use crate::{
    clock::Timestamp,
    entity::{Authenticator, Credential, Id, Identity, Record, builtin},
    error::{Error, Result},
    pki::{AlternativeNames, Material, Seal},
    store::{Read, Store, Tx},
};

/// The administrator of a new controller.
pub struct Administrator {
    pub username: String,
    /// PHC text.
    pub password: String,
}

/// Fills a new file: keys and certificates for `hosts`, in this vault, the built-in records and the administrator, all or nothing.
///
/// # Errors
/// The store refuses, or there is no randomness.
pub fn first_start(store: &Store, vault: &Vault, hosts: AlternativeNames, administrator: Administrator) -> Result<()> {
    let vault = vault.clone();
    store.write_blocking(move |tx| {
        let now = crate::entity::Facts::now(tx);
        let material = Material::generate(&hosts, now.seconds()).map_err(|e| Error::Internal(format!("making keys: {e}")))?;
        vault.establish(tx)?;
        certificates::keep(tx, &vault, &material)?;
        builtin::identity_types(now).into_iter().try_for_each(|record| tx.insert(record))?;
        builtin::posture_check_types(now).into_iter().try_for_each(|record| tx.insert(record))?;
        builtin::config_types(now)?.into_iter().try_for_each(|record| tx.insert(record))?;
        tx.insert(builtin::auth_policy(now))?;
        add(tx, now, administrator)
    })
}

fn add(tx: &Tx<'_>, now: Timestamp, administrator: Administrator) -> Result<()> {
    let Administrator { username, password } = administrator;
    let id = super::lifecycle::short_id();
    let mut identity = Record::new(Id::from_text(id.as_str()), now, Identity::named("Default Admin"));
    identity.spec.is_admin = true;
    identity.state.is_default_admin = true;
    tx.insert(identity)?;
    let credential = Credential::Updb { username, password };
    let authenticator = Authenticator { identity_id: Id::from_text(id), credential };
    tx.insert(Record::new(Id::from_text(super::lifecycle::short_id()), now, authenticator))
}

/// The seal on secrets of records; a file that has no key for it yet gets one.
///
/// # Errors
/// The stored key cannot be read, or there is no randomness.
pub fn seal(store: &Store, vault: &Vault) -> Result<Seal> {
    let vault = vault.clone();
    store.write_blocking(move |tx| {
        if let Some(seal) = stored_seal(tx, &vault)? {
            return Ok(seal);
        }
        let made = |e| Error::Internal(format!("making a key: {e}"));
        let key = Seal::new_key().map_err(made)?;
        vault.keep(tx, Secret::SEAL, &key)?;
        Seal::new(&key).map_err(made)
    })
}

/// The same, if there is a key for it.
///
/// # Errors
/// [`Error::Damaged`]; the file cannot be read.
pub fn stored_seal(read: &Read<'_>, vault: &Vault) -> Result<Option<Seal>> {
    let key = vault.find(read, Secret::SEAL)?;
    key.map(|key| Seal::new(&key).map_err(|_| Secret::SEAL.damaged("it is no key"))).transpose()
}
