//! Whatever a disk does, everything acknowledged is in the file, and no transaction is there in
//! part.
//!
//! A store with the controller's kinds runs on a [`SimulatedDisk`], with a manual clock. Random
//! groups of jobs run on it and, at the same time, on a store whose disk never fails; the two must
//! have the same content. Power is lost, or only the process is killed, at any operation, also
//! while the file is created, opened or repaired; or the disk fails for a while. One number, the
//! seed, decides everything: `OVERKEEP_SEEDS=n` runs n seeds, from `OVERKEEP_FIRST_SEED` on;
//! `OVERKEEP_SEED=n` runs the one that failed.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{LazyLock, mpsc::channel},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use model::{
    clock::{Clock, Timestamp},
    entity::{
        AuthPolicy, Config, ConfigType, EdgeRouter, EdgeRouterPolicy, Entity, Id, Identity, Lookup,
        Record, Service, ServicePolicy, TypedLookup, builtin,
    },
    error::{Error, Result},
};
use policy::{
    access::{Access, Right},
    change::KINDS,
};
use redb::{Database, ReadableTable, TableDefinition};
use serde_json::{Value as Json, json};
use store::{OpenError, OpenStore, Options, Progress, Read, Store, Tx, Unreadable, encode};

use crate::simulated_disk::{DiskFault, Rng, SimulatedDisk};

use crate::harness::stores;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// More operations than one or two openings of the file need.
const FEW: usize = 60;

// --- jobs
// ----------------------------------------------------------------------------------------------------------------

/// One job of a client.
#[derive(Debug, Clone)]
enum Job {
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
enum JobKind {
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
    fn random(rng: &mut Rng) -> Self {
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

    fn run(&self, tx: &Tx<'_>) -> Result<()> {
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
fn commit(store: &Store, jobs: &[Job]) -> Vec<Result<()>> {
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

// --- content
// -------------------------------------------------------------------------------------------------------------

type Dump = BTreeMap<String, Vec<u8>>;

fn dump(store: &Store) -> Result<Dump> {
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

// --- both stores
// ---------------------------------------------------------------------------------------------------------

/// A store on a disk that may fail, and one on a disk that does not.
struct Pair {
    disk: SimulatedDisk,
    clock: Clock,
    store: Store,
    access: Access,
    shadow: Store,
    /// The time of the last attempted group: if it was committed after all, it was committed at
    /// this time.
    shadow_clock: Clock,
    shadow_access: Access,
}

fn open(disk: &SimulatedDisk, clock: &Clock) -> Result<OpenStore, OpenError> {
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
enum Outcome {
    Done,
    /// The disk failed.
    Refused,
}

impl Pair {
    /// Both stores empty; `None` if power is lost before the store on the failing disk is open.
    fn new(disk: SimulatedDisk, clock: Clock) -> Option<Self> {
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
    fn run(&self, jobs: &[Job]) -> Outcome {
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
    fn agrees(&self) {
        same(&dump(&self.store).unwrap(), &dump(&self.shadow).unwrap());
        assert_eq!(rights(&self.access), rights(&self.shadow_access));
    }

    /// After a restart everything acknowledged is there, and `doubtful` is there completely or not
    /// at all.
    fn restarts(&mut self, disk: SimulatedDisk, doubtful: &[Job]) {
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

fn same(found: &Dump, expected: &Dump) {
    let keys = found.keys().chain(expected.keys());
    let differ: Vec<&String> = keys
        .filter(|key| found.get(*key) != expected.get(*key))
        .collect();
    assert!(
        differ.is_empty(),
        "lost, changed or present without acknowledgement: {differ:?}"
    );
}

fn group(rng: &mut Rng) -> Vec<Job> {
    (0..=rng.below(6)).map(|_| Job::random(rng)).collect()
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
fn after_first_start(rng: &mut Rng) -> Pair {
    let clock = Clock::manual(Timestamp::from_millis(1_000));
    let pair = Pair::new(
        SimulatedDisk::holding(FIRST_START.clone(), rng.number()),
        clock,
    )
    .unwrap();
    assert_eq!(commit(&pair.shadow, &[Job::Setup]), [Ok(())]);
    pair
}

// --- faults
// --------------------------------------------------------------------------------------------------------------

/// The disk after power loss, or after the process alone was killed.
fn after_crash(disk: &SimulatedDisk, rng: &mut Rng) -> SimulatedDisk {
    if rng.percent(40) {
        disk.after_kill()
    } else {
        disk.after_power_loss()
    }
}

/// Power is lost during work, perhaps again while the store is opened, and work continues. Or only
/// the process is killed.
fn power_lost(rng: &mut Rng) {
    let mut pair = after_first_start(rng);
    for _ in 0..=rng.below(3) {
        pair.disk.power_for(rng.below(8 * FEW) as u64);
        let mut doubtful = Vec::new();
        for _ in 0..rng.below(12) {
            doubtful = group(rng);
            if pair.run(&doubtful) == Outcome::Refused {
                assert!(
                    !pair.disk.has_power(),
                    "a group was refused although the disk worked"
                );
                break;
            }
            doubtful.clear();
        }
        let mut disk = after_crash(&pair.disk, rng);
        if rng.percent(30) {
            disk.power_for(rng.below(2 * FEW) as u64);
            if let Ok(store) = open(&disk, &pair.clock).and_then(OpenStore::start) {
                store.close();
            }
            disk = after_crash(&disk, rng);
        }
        pair.restarts(disk, &doubtful);
        assert_eq!(pair.run(&group(rng)), Outcome::Done);
        pair.agrees();
    }
}

/// Power is lost, or the process is killed, while the file is created.
fn power_lost_at_first_start(rng: &mut Rng) {
    let clock = Clock::manual(Timestamp::from_millis(1_000));
    let disk = SimulatedDisk::holding(Vec::new(), rng.number());
    disk.power_for(rng.below(2 * FEW) as u64);
    if let Some(mut pair) = Pair::new(disk.clone(), clock.clone()) {
        let done = pair.run(&[Job::Setup]);
        let doubtful: &[Job] = if done == Outcome::Done {
            &[]
        } else {
            &[Job::Setup]
        };
        let disk = after_crash(&disk, rng);
        pair.restarts(disk, doubtful);
        return;
    }
    // A file is created under a temporary name and renamed when it is complete: what is left of
    // this one is discarded.
    let again = Pair::new(SimulatedDisk::holding(Vec::new(), rng.number()), clock).unwrap();
    assert_eq!(again.run(&[Job::Setup]), Outcome::Done);
}

const FAULTS: [DiskFault; 6] = [
    DiskFault::Reads,
    DiskFault::Writes,
    DiskFault::Flushes,
    DiskFault::FlushesThenReads,
    DiskFault::Lengths,
    DiskFault::Full,
];

/// The disk fails for a while, and power may be lost, or the process killed, before it works again
/// or just then.
fn disk_fails(rng: &mut Rng) {
    let mut pair = after_first_start(rng);
    for _ in 0..=rng.below(3) {
        for _ in 0..rng.below(4) {
            assert_eq!(pair.run(&group(rng)), Outcome::Done);
        }
        let mut fault = *rng.pick(&FAULTS);
        pair.disk.fault(fault);
        let mut doubtful = Vec::new();
        for _ in 0..=rng.below(8) {
            doubtful = group(rng);
            if pair.run(&doubtful) == Outcome::Refused {
                break;
            }
            doubtful.clear();
        }
        if !doubtful.is_empty() {
            assert!(!pair.store.is_alive());
            assert_eq!(
                pair.run(&group(rng)),
                Outcome::Refused,
                "a group was written before the disk worked again"
            );
        }
        // Another fault follows.
        if rng.percent(30) {
            fault = *rng.pick(&FAULTS);
            pair.disk.fault(fault);
            (0..=rng.below(3)).for_each(|_| retries(&pair));
            if pair.store.is_alive() {
                doubtful.clear();
            }
        }
        if matches!(fault, DiskFault::Reads | DiskFault::FlushesThenReads) {
            // Whatever can be read is right.
            let _ = dump(&pair.store).map(|found| same(&found, &dump(&pair.shadow).unwrap()));
        } else {
            pair.agrees();
        }
        if rng.percent(30) {
            let disk = after_crash(&pair.disk, rng);
            pair.restarts(disk, &doubtful);
            continue;
        }
        pair.disk.fault(DiskFault::None);
        if rng.percent(30) {
            pair.disk.power_for(rng.below(FEW) as u64);
            retries(&pair);
            if !pair.disk.has_power() {
                let disk = after_crash(&pair.disk, rng);
                pair.restarts(disk, &doubtful);
                continue;
            }
            pair.disk.power_for(u64::MAX);
        }
        recovers(&pair);
        pair.agrees();
    }
    let disk = pair.disk.after_power_loss();
    pair.restarts(disk, &[]);
}

/// The store notices that the disk works again.
fn recovers(pair: &Pair) {
    until("the disk works again and the store does not", || {
        pair.clock.advance(Duration::from_millis(1));
        pair.run(&[]) == Outcome::Done && pair.store.is_alive() && dump(&pair.store).is_ok()
    });
}

/// The store tries the disk once more, with success or not.
fn retries(pair: &Pair) {
    let failed = pair.disk.failed();
    pair.clock.advance(Duration::from_millis(1));
    until("the store does not retry the disk", || {
        pair.store.is_alive() || pair.disk.failed() > failed || !pair.disk.has_power()
    });
}

fn until(complaint: &str, done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{complaint}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Power is lost, or the process is killed, while a damaged index is repaired.
fn power_lost_during_repair(rng: &mut Rng) {
    const INDEX: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("index");
    let mut pair = after_first_start(rng);
    for _ in 0..4 {
        assert_eq!(pair.run(&group(rng)), Outcome::Done);
    }
    pair.store.close();
    let content = SimulatedDisk::holding(pair.disk.content(), 0);
    let database = Database::builder()
        .create_with_backend(content.clone())
        .unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut index = transaction.open_table(INDEX).unwrap();
        let keys: Vec<Vec<u8>> = index
            .iter()
            .unwrap()
            .map(|row| row.unwrap().0.value().to_vec())
            .collect();
        for key in keys.iter().filter(|_| rng.percent(40)) {
            index.remove(key.as_slice()).unwrap();
        }
        index
            .insert(b"nobody's".as_slice(), b"".as_slice())
            .unwrap();
    }
    transaction.commit().unwrap();
    drop(database);
    let disk = SimulatedDisk::holding(content.content(), rng.number());
    disk.power_for((FEW + rng.below(FEW)) as u64);
    if let Ok(store) = open(&disk, &pair.clock).and_then(OpenStore::start) {
        drop(store.repair(Unreadable::Stays, &Progress::default()));
        store.close();
    }
    let disk = after_crash(&disk, rng);
    let store = open(&disk, &pair.clock).and_then(OpenStore::start).unwrap();
    store
        .repair(Unreadable::Stays, &Progress::default())
        .unwrap();
    store.close();
    let disk = disk.after_power_loss();
    pair.restarts(disk, &[]);
    assert_eq!(pair.run(&group(rng)), Outcome::Done);
    pair.agrees();
}

fn history(seed: u64) {
    let mut rng = Rng(seed);
    match rng.below(10) {
        0 => power_lost_at_first_start(&mut rng),
        1 => power_lost_during_repair(&mut rng),
        2..6 => disk_fails(&mut rng),
        _ => power_lost(&mut rng),
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
#[ignore = "endurance"]
fn disk_faults_lose_nothing_acknowledged() {
    let seeds = match number("OVERKEEP_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("OVERKEEP_FIRST_SEED").unwrap_or(0);
            first..first + number("OVERKEEP_SEEDS").unwrap_or(60)
        }
    };
    let fails = |seed: &u64| {
        let failed = catch_unwind(AssertUnwindSafe(|| history(*seed))).is_err();
        if failed {
            println!("OVERKEEP_SEED={seed}");
        }
        failed
    };
    let failed: Vec<u64> = seeds.filter(fails).collect();
    assert!(
        failed.is_empty(),
        "replay with OVERKEEP_SEED set to one of {failed:?}"
    );
}
