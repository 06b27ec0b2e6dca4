//! Random jobs of a client, and groups of them.

use std::sync::mpsc::channel;

use futures_util::future::join_all;
use model::{
    entity::{
        Config, ConfigType, EdgeRouter, EdgeRouterPolicy, Entity, Id, Identity, Lookup, Record,
        Service, ServicePolicy, TypedLookup, builtin,
    },
    error::{Error, Result},
};
use serde_json::{Value as Json, json};
use store::{Store, Tx};

use super::NAMES;
use crate::simulated_disk::Rng;

/// One job of a client.
#[derive(Debug, Clone)]
pub(super) enum Job {
    /// Creates or replaces a record; the JSON is its spec.
    Put(JobKind, String, Json),
    Delete(JobKind, String),
    /// Creates the records that all others refer to.
    Setup,
    /// Writes and then fails.
    Rollback(String),
    Setting(String, Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum JobKind {
    Identity,
    Service,
    EdgeRouter,
    Config,
    ServicePolicy,
    EdgeRouterPolicy,
}

const JOB_KINDS: [JobKind; 6] = [
    JobKind::Identity,
    JobKind::Service,
    JobKind::EdgeRouter,
    JobKind::Config,
    JobKind::ServicePolicy,
    JobKind::EdgeRouterPolicy,
];

fn put<E: Entity>(tx: &Tx<'_>, id: &str, spec: &Json) -> Result<()> {
    let record = Record::<E>::new(
        Id::from_text(id),
        Lookup::now(tx),
        serde_json::from_value(spec.clone()).unwrap(),
    );
    if tx.find(&record.id)?.is_some() {
        tx.put(record)
    } else {
        tx.insert(record)
    }
}

impl Job {
    pub(super) fn random(rng: &mut Rng) -> Self {
        let kind = *rng.pick(&JOB_KINDS);
        let id = (*rng.pick(&NAMES)).to_owned();
        let roles = |rng: &mut Rng, of: &[&str]| -> Vec<String> {
            (0..rng.below(4)).map(|_| (*rng.pick(of)).into()).collect()
        };
        let attributes = |rng: &mut Rng| roles(rng, &["x", "y", "z"]);
        let list = |rng: &mut Rng| roles(rng, &["#x", "#y", "#z", "@a", "@b", "@c"]);
        match rng.below(100) {
            0..20 => Self::Delete(kind, id),
            20..25 => Self::Rollback(id),
            25..35 => Self::Setting(id, (0..rng.below(9000)).map(|n| n as u8).collect()),
            _ => {
                let name = format!("{kind:?} {id} {}", "long ".repeat(rng.below(80)));
                let spec = match kind {
                    JobKind::Identity => {
                        json!({ "name": name, "type": "Default", "isAdmin": false, "authPolicyId": "default", "roleAttributes": attributes(rng) })
                    }
                    JobKind::Service => {
                        let configs: &[&str] = if rng.percent(30) { &["a"] } else { &[] };
                        json!({ "name": name, "encryptionRequired": true, "roleAttributes": attributes(rng), "configs": configs })
                    }
                    JobKind::EdgeRouter => {
                        json!({ "name": name, "roleAttributes": attributes(rng) })
                    }
                    JobKind::Config => {
                        json!({ "name": name, "configTypeId": "t", "data": { "n": rng.below(1000) } })
                    }
                    JobKind::ServicePolicy => {
                        json!({ "name": name, "type": *rng.pick(&["Dial", "Bind"]), "semantic": *rng.pick(&["AllOf", "AnyOf"]),
                        "identityRoles": list(rng), "serviceRoles": list(rng) })
                    }
                    JobKind::EdgeRouterPolicy => {
                        json!({ "name": name, "semantic": "AnyOf", "identityRoles": list(rng), "edgeRouterRoles": list(rng) })
                    }
                };
                Self::Put(kind, id, spec)
            }
        }
    }

    pub(super) fn run(&self, tx: &Tx<'_>) -> Result<()> {
        match self {
            Self::Put(kind, id, spec) => match kind {
                JobKind::Identity => put::<Identity>(tx, id, spec),
                JobKind::Service => put::<Service>(tx, id, spec),
                JobKind::EdgeRouter => put::<EdgeRouter>(tx, id, spec),
                JobKind::Config => put::<Config>(tx, id, spec),
                JobKind::ServicePolicy => put::<ServicePolicy>(tx, id, spec),
                JobKind::EdgeRouterPolicy => put::<EdgeRouterPolicy>(tx, id, spec),
            },
            Self::Delete(kind, id) => match kind {
                JobKind::Identity => tx.delete(&Id::<Identity>::from_text(id)),
                JobKind::Service => tx.delete(&Id::<Service>::from_text(id)),
                JobKind::EdgeRouter => tx.delete(&Id::<EdgeRouter>::from_text(id)),
                JobKind::Config => tx.delete(&Id::<Config>::from_text(id)),
                JobKind::ServicePolicy => tx.delete(&Id::<ServicePolicy>::from_text(id)),
                JobKind::EdgeRouterPolicy => tx.delete(&Id::<EdgeRouterPolicy>::from_text(id)),
            },
            Self::Setup => {
                tx.insert(builtin::auth_policy(Lookup::now(tx)))?;
                let spec = ConfigType {
                    name: "t".into(),
                    schema: None,
                };
                tx.insert(Record::new(Id::from_text("t"), Lookup::now(tx), spec))
            }
            Self::Rollback(id) => {
                tx.set_setting(id, Some(b"rolled back"))?;
                Err(Error::Incomplete("rolled back on purpose".into()))
            }
            Self::Setting(name, value) => tx.set_setting(name, Some(value)),
        }
    }
}

/// Runs jobs as one group. Returns their answers.
pub(super) fn commit(store: &Store, jobs: &[Job]) -> Vec<Result<()>> {
    let (release, wait) = channel::<()>();
    // While the first job waits, the others queue up behind it.
    let gate = store.write(move |_| {
        let _ = wait.recv();
        Ok(())
    });
    let jobs = join_all(
        jobs.iter()
            .cloned()
            .map(|entry| store.write(move |tx| entry.run(tx))),
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (_, answers, ()) =
        runtime.block_on(async { tokio::join!(gate, jobs, async { drop(release) }) });
    answers
}

pub(super) fn group(rng: &mut Rng) -> Vec<Job> {
    (0..=rng.below(6)).map(|_| Job::random(rng)).collect()
}
