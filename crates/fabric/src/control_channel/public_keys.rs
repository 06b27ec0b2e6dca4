//! The keys with which routers from version 1.7 on verify: the key that signs the tokens of
//! sessions, the one that signed them in earlier versions, and the authorities of client
//! certificates.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    sync::{Arc, atomic::Ordering},
};

use model::{entity::Ca, error::Result};
use pki::{Certificate, Role};
use prost::Message;
use wire::{
    control::{
        content,
        model::{Action, ChangeSet, Event, KeyUsage, Model, PublicKey},
    },
    frame::Builder,
};

use super::{connection::RouterConnection, control_core::ControlCore};

/// Third-party authorities beyond this number are left out.
const MAX_AUTHORITIES: usize = 1000;
/// The format of a key that is a DER `SubjectPublicKeyInfo` (RFC 5280).
const PKIX: i32 = 1;

/// Sends the keys to a router that has a data model, unless it has the same keys already.
pub(crate) fn send(core: &ControlCore, connection: &Arc<RouterConnection>) {
    if !connection.has_data_model.load(Ordering::Acquire) {
        return;
    }
    let keys = match all(core) {
        Ok(keys) => keys,
        Err(error) => {
            return tracing::warn!(router = %connection.router, %error, "the public keys cannot be read");
        }
    };
    let mut hasher = DefaultHasher::new();
    for key in &keys {
        (&key.kid, &key.usages).hash(&mut hasher);
    }
    if connection.keys.swap(hasher.finish(), Ordering::AcqRel) == hasher.finish() {
        return;
    }
    let changes = ChangeSet {
        is_synthetic: true,
        changes: keys.into_iter().map(event).collect(),
        ..ChangeSet::default()
    };
    connection.send(Builder::new(content::CHANGE_SET).body(&changes.encode_to_vec()));
}

fn event(key: PublicKey) -> Event {
    Event {
        action: Action::Create.into(),
        is_synthetic: true,
        model: Some(Model::PublicKey(key)),
    }
}

/// The keys as events of a data model.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn events(core: &ControlCore) -> Result<Vec<Event>> {
    Ok(all(core)?.into_iter().map(event).collect())
}

fn all(core: &ControlCore) -> Result<Vec<PublicKey>> {
    let keystore = &core.context.keystore;
    let certificates = keystore.certificates();
    // The leaf that listeners serve is the last one.
    let leaf = certificates
        .last()
        .map(|(_, leaf)| leaf.der().to_vec())
        .unwrap_or_default();
    let mut keys: Vec<_> = keystore
        .signer()
        .public_keys()
        .map(|key| public_key(key.kid.clone(), leaf.clone(), &[KeyUsage::JwtValidation]))
        .collect();
    let sessions = keystore.session_signer();
    let usages = vec![KeyUsage::JwtValidation.into()];
    keys.push(PublicKey {
        data: sessions.public().der().to_vec(),
        kid: sessions.kid().to_owned(),
        usages,
        format: PKIX,
    });
    let is_authority = |role: Role| !matches!(role, Role::Server | Role::External);
    keys.extend(
        certificates
            .iter()
            .filter(|(role, _)| is_authority(*role))
            .map(|(_, ca)| of_authority(ca)),
    );
    core.network.store().read(|tx| {
        tx.each_readable::<Ca>(|ca| {
            if ca.state.is_verified && keys.len() < MAX_AUTHORITIES {
                keys.extend(
                    ca.spec
                        .certificates()
                        .unwrap_or_default()
                        .iter()
                        .map(of_authority),
                );
            }
            Ok(())
        })
    })?;
    Ok(keys)
}

fn of_authority(ca: &Certificate) -> PublicKey {
    public_key(
        ca.fingerprint(),
        ca.der().to_vec(),
        &[KeyUsage::ClientX509CertValidation],
    )
}

/// A certificate whose key serves for verification.
fn public_key(kid: String, data: Vec<u8>, usages: &[KeyUsage]) -> PublicKey {
    PublicKey {
        data,
        kid,
        usages: usages.iter().map(|usage| (*usage).into()).collect(),
        format: 0,
    }
}
