//! The first start: what a new file holds before anybody asked for anything.

use crate::{
    clock::Timestamp,
    entity::{Authenticator, Credential, Id, Identity, Record, builtin},
    error::{Error, Result},
    pki::{self, AlternativeNames, Holdings, Material, Seal},
    store::{Store, Tx},
};

/// The setting under which keys and certificates are stored.
const MATERIAL: &str = "pki";

/// The setting under which the key is stored that seals secrets.
const SEAL: &str = "seal";

/// The administrator of a new controller.
pub struct Administrator {
    pub username: String,
    /// PHC text.
    pub password: String,
}

/// Fills a new file: keys and certificates for `hosts`, the built-in records and the administrator, all or nothing.
///
/// # Errors
/// The store refuses, or there is no randomness.
pub fn first_start(store: &Store, hosts: AlternativeNames, administrator: Administrator) -> Result<()> {
    store.write_blocking(move |tx| {
        let now = crate::entity::Facts::now(tx);
        let material = Material::generate(&hosts, now.seconds()).map_err(|e| Error::Internal(format!("making keys: {e}")))?;
        keep(tx, &material)?;
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

fn keep(tx: &Tx<'_>, material: &Material) -> Result<()> {
    let text = serde_json::to_vec(material).map_err(|e| Error::Internal(format!("storing keys: {e}")))?;
    tx.set_setting(MATERIAL, Some(&text))
}

/// Renews the leaf that listeners show, if it is time to or it does not name all of `hosts`. It is stored before anybody sees it.
///
/// # Errors
/// The leaf cannot be issued or stored; the old one stays.
pub fn renew_leaf(store: &Store, holdings: &Holdings, hosts: &AlternativeNames, now: Timestamp) -> Result<bool> {
    let broken = |e: pki::Error| Error::Internal(format!("renewing the server certificate: {e}"));
    let Some(next) = holdings.due(hosts, now.seconds()).map_err(broken)? else { return Ok(false) };
    let stored = next.clone();
    store.write_blocking(move |tx| keep(tx, &stored))?;
    holdings.adopt(next).map_err(broken)?;
    Ok(true)
}

/// The stored keys and certificates.
///
/// # Errors
/// They are missing or cannot be read.
pub fn material(store: &Store) -> Result<Material> {
    let text = store.read(|tx| tx.setting(MATERIAL))?.ok_or_else(|| Error::Storage("the file holds no keys".into()))?;
    serde_json::from_slice(&text).map_err(|e| Error::Storage(format!("the stored keys: {e}")))
}

/// The seal on stored secrets; a file that has no key for it yet gets one.
///
/// # Errors
/// The stored key cannot be read, or there is no randomness.
pub fn seal(store: &Store) -> Result<Seal> {
    let key = store.write_blocking(|tx| {
        if let Some(key) = tx.setting(SEAL)? {
            return Ok(key);
        }
        let key = Seal::new_key().map_err(|e| Error::Internal(format!("making a key: {e}")))?;
        tx.set_setting(SEAL, Some(&key))?;
        Ok(key.to_vec())
    })?;
    Seal::new(&key).map_err(|e| Error::Storage(format!("the stored key for secrets: {e}")))
}
