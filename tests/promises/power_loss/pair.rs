//! A store on a disk that fails beside one on a disk that does not, and what both must have in
//! common.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
    time::Duration,
};

use model::{
    clock::{Clock, Timestamp},
    entity::{
        AuthPolicy, Config, ConfigType, EdgeRouter, EdgeRouterPolicy, Entity, Identity, Service,
        ServicePolicy,
    },
    error::{Error, Result},
};
use policy::{
    access::{Access, Right},
    change::KINDS,
};
use store::{OpenError, OpenStore, Options, Progress, Read, Store, encode};

use super::{
    NAMES,
    jobs::{Job, commit},
};
use crate::{
    harness::stores,
    simulated_disk::{Rng, SimulatedDisk},
};

pub(super) type Dump = BTreeMap<String, Vec<u8>>;

pub(super) fn dump(store: &Store) -> Result<Dump> {
    fn all<E: Entity>(tx: &Read<'_>, into: &mut Dump) -> Result<()> {
        tx.each::<E>(|record| {
            into.insert(format!("{} {}", E::KIND.name, record.id), encode(&record)?);
            Ok(())
        })
    }
    store.read(|tx| {
        let mut found = Dump::new();
        all::<Identity>(tx, &mut found)?;
        all::<Service>(tx, &mut found)?;
        all::<EdgeRouter>(tx, &mut found)?;
        all::<Config>(tx, &mut found)?;
        all::<ConfigType>(tx, &mut found)?;
        all::<AuthPolicy>(tx, &mut found)?;
        all::<ServicePolicy>(tx, &mut found)?;
        all::<EdgeRouterPolicy>(tx, &mut found)?;
        for name in NAMES {
            found.extend(
                tx.setting(name)?
                    .map(|value| (format!("setting {name}"), value)),
            );
        }
        Ok(found)
    })
}

/// Every answer of the engine.
fn rights(access: &Access) -> Vec<String> {
    access.ask(|engine| {
        let mut all = Vec::new();
        for (identity, service) in NAMES
            .iter()
            .flat_map(|identity| NAMES.map(|service| (identity, service)))
        {
            let rights =
                [Right::Dial, Right::Bind].map(|right| engine.may(identity, service, right));
            let routers: BTreeSet<_> = engine.edge_routers_of_identity(identity).ids().collect();
            all.push(format!("{identity} {service} {rights:?} {routers:?}"));
        }
        all
    })
}

/// A store on a disk that may fail, and one on a disk that does not.
pub(super) struct Pair {
    pub(super) disk: SimulatedDisk,
    pub(super) clock: Clock,
    pub(super) store: Store,
    access: Access,
    pub(super) shadow: Store,
    /// The time of the last attempted group: if it was committed after all, it was committed at
    /// this time.
    shadow_clock: Clock,
    shadow_access: Access,
}

pub(super) fn open(disk: &SimulatedDisk, clock: &Clock) -> Result<OpenStore, OpenError> {
    // The cache is so small that pages are written before the end of a transaction and read again.
    let options = Options {
        cache_bytes: 256 << 10,
        retry: Duration::from_millis(1),
        clock: clock.clone(),
        ..Options::default()
    };
    stores::of(KINDS).with(options).try_open_on(disk.clone())
}

fn shadow(clock: &Clock) -> OpenStore {
    stores::of(KINDS)
        .with(Options {
            clock: clock.clone(),
            ..Options::default()
        })
        .open_in_memory()
}

/// The result of a group.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// The disk failed.
    Refused,
}

impl Pair {
    /// Both stores empty; `None` if power is lost before the store on the failing disk is open.
    pub(super) fn new(disk: SimulatedDisk, clock: Clock) -> Option<Self> {
        let shadow_clock = Clock::manual(clock.now());
        let shadow = shadow(&shadow_clock);
        let shadow_access = Access::following(&shadow, shadow_clock.clone()).unwrap();
        let opened = open(&disk, &clock)
            .inspect_err(|e| assert!(!disk.has_power(), "{e}"))
            .ok()?;
        let access = Access::following(&opened, clock.clone()).ok()?;
        let (store, shadow) = (opened.start().unwrap(), shadow.start().unwrap());
        Some(Self {
            disk,
            clock,
            store,
            access,
            shadow,
            shadow_clock,
            shadow_access,
        })
    }

    /// Runs a group on the failing disk and, if it was acknowledged, on the other, where it must
    /// have the same results.
    pub(super) fn run(&self, jobs: &[Job]) -> Outcome {
        self.shadow_clock.set(self.clock.now());
        let answers = commit(&self.store, jobs);
        if answers
            .iter()
            .any(|answer| matches!(answer, Err(Error::Storage(_) | Error::Internal(_))))
        {
            assert!(
                answers.iter().all(Result::is_err),
                "a group was acknowledged in part: {answers:?}"
            );
            return Outcome::Refused;
        }
        assert_eq!(answers, commit(&self.shadow, jobs));
        Outcome::Done
    }

    /// Both stores have the same content, and the engine agrees.
    pub(super) fn agrees(&self) {
        same(&dump(&self.store).unwrap(), &dump(&self.shadow).unwrap());
        assert_eq!(rights(&self.access), rights(&self.shadow_access));
    }

    /// After a restart everything acknowledged is there, and `doubtful` is there completely or not
    /// at all.
    pub(super) fn restarts(&mut self, disk: SimulatedDisk, doubtful: &[Job]) {
        let before = (dump(&self.shadow).unwrap(), rights(&self.shadow_access));
        assert_eq!(
            rights(&self.access),
            before.1,
            "the engine had changes that were never acknowledged"
        );
        self.store.close();
        let opened = open(&disk, &self.clock).unwrap_or_else(|e| panic!("reopening failed: {e}"));
        self.access = Access::following(&opened, self.clock.clone()).unwrap();
        self.store = opened.start().unwrap();
        self.disk = disk;
        let findings = self.store.check(&Progress::default()).unwrap().findings;
        assert!(findings.is_empty(), "{findings:#?}");
        if dump(&self.store).unwrap() != before.0 {
            drop(commit(&self.shadow, doubtful));
        }
        self.agrees();
    }
}

/// The engine's listener holds the store, which ends only when it is stopped.
impl Drop for Pair {
    fn drop(&mut self) {
        self.store.close();
        self.shadow.close();
    }
}

pub(super) fn same(found: &Dump, expected: &Dump) {
    let keys = found.keys().chain(expected.keys());
    let differ: Vec<&String> = keys
        .filter(|key| found.get(*key) != expected.get(*key))
        .collect();
    assert!(
        differ.is_empty(),
        "lost, changed or present without acknowledgement: {differ:?}"
    );
}

/// The content of a disk after a first start.
static FIRST_START: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let disk = SimulatedDisk::holding(Vec::new(), 0);
    let store = open(&disk, &Clock::manual(Timestamp::from_millis(1_000)))
        .and_then(OpenStore::start)
        .unwrap();
    assert_eq!(commit(&store, &[Job::Setup]), [Ok(())]);
    store.close();
    disk.content()
});

/// A pair after the first start.
pub(super) fn after_first_start(rng: &mut Rng) -> Pair {
    let clock = Clock::manual(Timestamp::from_millis(1_000));
    let pair = Pair::new(
        SimulatedDisk::holding(FIRST_START.clone(), rng.number()),
        clock,
    )
    .unwrap();
    assert_eq!(commit(&pair.shadow, &[Job::Setup]), [Ok(())]);
    pair
}
