//! A store with some hundred records, and damage to its file.

use std::{collections::BTreeMap, path::Path};

use model::{
    entity::{ConfigType, Entity, Id, Identity, Lookup, Record, Service, builtin},
    error::Result,
};
use policy::change::KINDS;
use serde_json::json;
use store::{OpenError, OpenStore, Options, Read, Store, encode};

use crate::{
    harness::stores,
    simulated_disk::{Rng, SimulatedDisk},
};

pub(super) type Found = BTreeMap<String, Vec<u8>>;

/// Reads everything, or returns the first error.
pub(super) fn read_all(store: &Store, into: &mut Found) -> Result<()> {
    fn all<E: Entity>(tx: &Read<'_>, into: &mut Found) -> Result<()> {
        tx.each::<E>(|record| {
            into.insert(format!("{} {}", E::KIND.name, record.id), encode(&record)?);
            Ok(())
        })
    }
    store.read(|tx| {
        all::<Identity>(tx, into)?;
        all::<Service>(tx, into)?;
        all::<ConfigType>(tx, into)?;
        into.extend(tx.setting("keys")?.map(|value| ("keys".to_owned(), value)));
        Ok(())
    })
}

/// Fills a store with some hundred records.
pub(super) fn fill(store: &Store) -> Found {
    let wrote = store.write_blocking(|tx| {
        tx.insert(builtin::auth_policy(Lookup::now(tx)))?;
        tx.set_setting("keys", Some(&[7; 20_000]))?;
        for n in 0..100 {
            let (id, now) = (format!("{n:03}"), Lookup::now(tx));
            let identity = json!({ "name": format!("identity {n}"), "type": "Default", "isAdmin": false, "authPolicyId": "default",
                "roleAttributes": [format!("role {}", n % 9)] });
            tx.insert::<Identity>(Record::new(Id::from_text(id.as_str()), now, serde_json::from_value(identity).unwrap()))?;
            let service = json!({ "name": format!("service {n} {}", "long ".repeat(n)), "encryptionRequired": true });
            tx.insert::<Service>(Record::new(Id::from_text(id), now, serde_json::from_value(service).unwrap()))?;
        }
        Ok(())
    });
    wrote.unwrap();
    let mut found = Found::new();
    read_all(store, &mut found).unwrap();
    assert_eq!(found.len(), 201);
    found
}

/// Changes a random place that is not empty; returns a description.
pub(super) fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) -> String {
    if rng.percent(20) {
        let len = rng.below(bytes.len());
        bytes.truncate(len);
        return format!("cut off at {len}");
    }
    // Most of a file is empty; half of the damage must hit other bytes.
    let mut at = rng.below(bytes.len());
    if rng.percent(50) {
        at = (0..bytes.len())
            .map(|n| (at + n) % bytes.len())
            .find(|at| bytes[*at] != 0)
            .unwrap();
    }
    if rng.percent(20) {
        let end = bytes.len().min(at + 1 + rng.below(5000));
        bytes[at..end]
            .iter_mut()
            .for_each(|byte| *byte = rng.number() as u8);
        return format!("{at} to {end} overwritten");
    }
    bytes[at] ^= 1 << rng.below(8);
    format!("a bit of {at}")
}

pub(super) fn open(path: &Path) -> Result<Store, OpenError> {
    stores::of(KINDS)
        .with(Options {
            cache_bytes: 1 << 20,
            ..Options::default()
        })
        .try_open(path)
        .and_then(OpenStore::start)
}

/// A store on a drive with almost no cache, so that everything is read from it.
pub(super) fn forgetful(drive: &SimulatedDisk) -> Store {
    stores::of(KINDS)
        .with(Options {
            cache_bytes: 0,
            ..Options::default()
        })
        .start_on(drive.clone())
}

/// A file with some hundred records, and its content.
pub(super) fn filled() -> (Vec<u8>, Found) {
    let drive = SimulatedDisk::holding(Vec::new(), 0);
    let store = forgetful(&drive);
    let found = fill(&store);
    store.close();
    (drive.content(), found)
}
