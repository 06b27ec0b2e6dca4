//! Whatever the disk does, what was acknowledged is there and nothing is there by halves.
//!
//! A store of the controller's own kinds runs on a [`SimulatedDisk`], with a clock that is moved by hand. Random histories in groups of
//! jobs run on it and, at the same time, on a store whose disk never fails: what that one has is what there must be. The power goes
//! at any operation, or only the process is killed there, also while the file is made, opened or mended; or the disk stops working
//! for a while. One number, the seed, decides everything: `OVERKEEP_SEEDS=n` tries n of them, from `OVERKEEP_FIRST_SEED` on,
//! `OVERKEEP_SEED=n` the one that failed.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{LazyLock, mpsc::channel},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use overkeep::{
    access::{Access, Right},
    change::KINDS,
    clock::{Clock, Timestamp},
    entity::{
        AuthPolicy, Config, ConfigType, EdgeRouter, EdgeRouterPolicy, Entity, Facts, FactsExt, Id, Identity, Record, Service,
        ServicePolicy, builtin,
    },
    error::{Error, Result},
    store::{OpenError, OpenStore, Options, Progress, Read, Store, Tx, Unreadable, encode},
};
use redb::{Database, ReadableTable, TableDefinition};
use serde_json::{Value as Json, json};

use crate::simulated_disk::{Chance, SimulatedDisk, Trouble};

use crate::harness::stores;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// An operation count that an opening or two fit in.
const FEW: usize = 60;

// --- what is done --------------------------------------------------------------------------------------------------------

/// One job of a client.
#[derive(Debug, Clone)]
enum Deed {
    /// Creates or replaces a record; JSON is its spec.
    Put(Sort, String, Json),
    Delete(Sort, String),
    /// What everything else refers to.
    Begin,
    /// Writes and thinks better of it.
    Regret(String),
    Note(String, Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sort {
    Identity,
    Service,
    EdgeRouter,
    Config,
    ServicePolicy,
    EdgeRouterPolicy,
}

const SORTS: [Sort; 6] = [Sort::Identity, Sort::Service, Sort::EdgeRouter, Sort::Config, Sort::ServicePolicy, Sort::EdgeRouterPolicy];

fn put<E: Entity>(tx: &Tx<'_>, id: &str, spec: &Json) -> Result<()> {
    let record = Record::<E>::new(Id::from_text(id), Facts::now(tx), serde_json::from_value(spec.clone()).unwrap());
    if tx.find(&record.id)?.is_some() { tx.put(record) } else { tx.insert(record) }
}

impl Deed {
    fn random(chance: &mut Chance) -> Self {
        let sort = *chance.pick(&SORTS);
        let id = (*chance.pick(&NAMES)).to_owned();
        let roles = |chance: &mut Chance, of: &[&str]| -> Vec<String> { (0..chance.below(4)).map(|_| (*chance.pick(of)).into()).collect() };
        let attributes = |chance: &mut Chance| roles(chance, &["x", "y", "z"]);
        let list = |chance: &mut Chance| roles(chance, &["#x", "#y", "#z", "@a", "@b", "@c"]);
        match chance.below(100) {
            0..20 => Self::Delete(sort, id),
            20..25 => Self::Regret(id),
            25..35 => Self::Note(id, (0..chance.below(9000)).map(|n| n as u8).collect()),
            _ => {
                let name = format!("{sort:?} {id} {}", "long ".repeat(chance.below(80)));
                let spec = match sort {
                    Sort::Identity => {
                        json!({ "name": name, "type": "Default", "isAdmin": false, "authPolicyId": "default", "roleAttributes": attributes(chance) })
                    }
                    Sort::Service => {
                        let configs: &[&str] = if chance.percent(30) { &["a"] } else { &[] };
                        json!({ "name": name, "encryptionRequired": true, "roleAttributes": attributes(chance), "configs": configs })
                    }
                    Sort::EdgeRouter => json!({ "name": name, "roleAttributes": attributes(chance) }),
                    Sort::Config => json!({ "name": name, "configTypeId": "t", "data": { "n": chance.below(1000) } }),
                    Sort::ServicePolicy => {
                        json!({ "name": name, "type": *chance.pick(&["Dial", "Bind"]), "semantic": *chance.pick(&["AllOf", "AnyOf"]),
                        "identityRoles": list(chance), "serviceRoles": list(chance) })
                    }
                    Sort::EdgeRouterPolicy => {
                        json!({ "name": name, "semantic": "AnyOf", "identityRoles": list(chance), "edgeRouterRoles": list(chance) })
                    }
                };
                Self::Put(sort, id, spec)
            }
        }
    }

    fn run(&self, tx: &Tx<'_>) -> Result<()> {
        match self {
            Self::Put(sort, id, spec) => match sort {
                Sort::Identity => put::<Identity>(tx, id, spec),
                Sort::Service => put::<Service>(tx, id, spec),
                Sort::EdgeRouter => put::<EdgeRouter>(tx, id, spec),
                Sort::Config => put::<Config>(tx, id, spec),
                Sort::ServicePolicy => put::<ServicePolicy>(tx, id, spec),
                Sort::EdgeRouterPolicy => put::<EdgeRouterPolicy>(tx, id, spec),
            },
            Self::Delete(sort, id) => match sort {
                Sort::Identity => tx.delete(&Id::<Identity>::from_text(id)),
                Sort::Service => tx.delete(&Id::<Service>::from_text(id)),
                Sort::EdgeRouter => tx.delete(&Id::<EdgeRouter>::from_text(id)),
                Sort::Config => tx.delete(&Id::<Config>::from_text(id)),
                Sort::ServicePolicy => tx.delete(&Id::<ServicePolicy>::from_text(id)),
                Sort::EdgeRouterPolicy => tx.delete(&Id::<EdgeRouterPolicy>::from_text(id)),
            },
            Self::Begin => {
                tx.insert(builtin::auth_policy(Facts::now(tx)))?;
                let spec = ConfigType { name: "t".into(), schema: None };
                tx.insert(Record::new(Id::from_text("t"), Facts::now(tx), spec))
            }
            Self::Regret(id) => {
                tx.set_setting(id, Some(b"not to stay"))?;
                Err(Error::Incomplete("thought better of it".into()))
            }
            Self::Note(name, value) => tx.set_setting(name, Some(value)),
        }
    }
}

/// Runs jobs as one group; their answers.
fn commit(store: &Store, deeds: &[Deed]) -> Vec<Result<()>> {
    let (release, wait) = channel::<()>();
    // While the first job waits, the others queue up behind it.
    let gate = store.write(move |_| {
        let _ = wait.recv();
        Ok(())
    });
    let jobs = join_all(deeds.iter().cloned().map(|entry| store.write(move |tx| entry.run(tx))));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (_, answers, ()) = runtime.block_on(async { tokio::join!(gate, jobs, async { drop(release) }) });
    answers
}

// --- what there is -------------------------------------------------------------------------------------------------------

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
            found.extend(tx.setting(name)?.map(|value| (format!("setting {name}"), value)));
        }
        Ok(found)
    })
}

/// Every answer of the engine.
fn rights(access: &Access) -> Vec<String> {
    access.ask(|engine| {
        let mut all = Vec::new();
        for (identity, service) in NAMES.iter().flat_map(|identity| NAMES.map(|service| (identity, service))) {
            let rights = [Right::Dial, Right::Bind].map(|right| engine.may(identity, service, right));
            let routers: BTreeSet<_> = engine.edge_routers_of_identity(identity).ids().collect();
            all.push(format!("{identity} {service} {rights:?} {routers:?}"));
        }
        all
    })
}

// --- both stores ---------------------------------------------------------------------------------------------------------

/// A store on a disk that may fail, and one on a disk that does not.
struct Pair {
    drive: SimulatedDisk,
    clock: Clock,
    store: Store,
    access: Access,
    shadow: Store,
    /// When the last group was tried: if it was done after all, it was done then.
    shadow_clock: Clock,
    shadow_access: Access,
}

fn open(drive: &SimulatedDisk, clock: &Clock) -> Result<OpenStore, OpenError> {
    // So little memory that pages are written before the end of a transaction, and read again.
    let options = Options { cache_bytes: 256 << 10, retry: Duration::from_millis(1), clock: clock.clone(), ..Options::default() };
    Store::open_on(drive.clone(), KINDS, options)
}

fn shadow(clock: &Clock) -> OpenStore {
    stores::of(KINDS).with(Options { clock: clock.clone(), ..Options::default() }).open_in_memory()
}

/// What became of a group.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// The disk failed.
    Refused,
}

impl Pair {
    /// Both empty; nothing if the power goes before the one on the drive is open.
    fn new(drive: SimulatedDisk, clock: Clock) -> Option<Self> {
        let shadow_clock = Clock::manual(clock.now());
        let shadow = shadow(&shadow_clock);
        let shadow_access = Access::following(&shadow, shadow_clock.clone()).unwrap();
        let opened = open(&drive, &clock).inspect_err(|e| assert!(!drive.has_power(), "{e}")).ok()?;
        let access = Access::following(&opened, clock.clone()).ok()?;
        let (store, shadow) = (opened.start().unwrap(), shadow.start().unwrap());
        Some(Self { drive, clock, store, access, shadow, shadow_clock, shadow_access })
    }

    /// Runs a group on the drive, and if it was done, on the other, where it must have the same results.
    fn run(&self, deeds: &[Deed]) -> Outcome {
        self.shadow_clock.set(self.clock.now());
        let answers = commit(&self.store, deeds);
        if answers.iter().any(|answer| matches!(answer, Err(Error::Storage(_) | Error::Internal(_)))) {
            assert!(answers.iter().all(Result::is_err), "some of a group is acknowledged and some is not: {answers:?}");
            return Outcome::Refused;
        }
        assert_eq!(answers, commit(&self.shadow, deeds));
        Outcome::Done
    }

    /// What is read is what was acknowledged, and the engine agrees.
    fn agrees(&self) {
        same(&dump(&self.store).unwrap(), &dump(&self.shadow).unwrap());
        assert_eq!(rights(&self.access), rights(&self.shadow_access));
    }

    /// After the power came back, or with the next process: all that was acknowledged is there, and `doubtful` as a whole or not at all.
    fn comes_back(&mut self, drive: SimulatedDisk, doubtful: &[Deed]) {
        let before = (dump(&self.shadow).unwrap(), rights(&self.shadow_access));
        assert_eq!(rights(&self.access), before.1, "the engine knew of what was never acknowledged");
        self.store.close();
        let opened = open(&drive, &self.clock).unwrap_or_else(|e| panic!("after the end: {e}"));
        self.access = Access::following(&opened, self.clock.clone()).unwrap();
        self.store = opened.start().unwrap();
        self.drive = drive;
        let findings = self.store.check(&Progress::default()).unwrap().findings;
        assert!(findings.is_empty(), "{findings:#?}");
        if dump(&self.store).unwrap() != before.0 {
            drop(commit(&self.shadow, doubtful));
        }
        self.agrees();
    }
}

/// The engine's listener holds the store, which ends only when it is told to.
impl Drop for Pair {
    fn drop(&mut self) {
        self.store.close();
        self.shadow.close();
    }
}

fn same(found: &Dump, expected: &Dump) {
    let keys = found.keys().chain(expected.keys());
    let differ: Vec<&String> = keys.filter(|key| found.get(*key) != expected.get(*key)).collect();
    assert!(differ.is_empty(), "lost, changed or there without having been acknowledged: {differ:?}");
}

fn group(chance: &mut Chance) -> Vec<Deed> {
    (0..=chance.below(6)).map(|_| Deed::random(chance)).collect()
}

/// What a drive holds after a first start.
static BEGUN: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let drive = SimulatedDisk::holding(Vec::new(), 0);
    let store = open(&drive, &Clock::manual(Timestamp::from_millis(1_000))).and_then(OpenStore::start).unwrap();
    assert_eq!(commit(&store, &[Deed::Begin]), [Ok(())]);
    store.close();
    drive.content()
});

/// A pair after the first start.
fn begun(chance: &mut Chance) -> Pair {
    let clock = Clock::manual(Timestamp::from_millis(1_000));
    let pair = Pair::new(SimulatedDisk::holding(BEGUN.clone(), chance.number()), clock).unwrap();
    assert_eq!(commit(&pair.shadow, &[Deed::Begin]), [Ok(())]);
    pair
}

// --- what goes wrong -----------------------------------------------------------------------------------------------------

/// What is on a disk after the power went, or after the process alone was killed.
fn after_the_end(drive: &SimulatedDisk, chance: &mut Chance) -> SimulatedDisk {
    if chance.percent(40) { drive.after_kill() } else { drive.after_power_loss() }
}

/// The power goes in the middle of work, perhaps again while the store is opened, and work goes on. Or only the process ends there.
fn power_fails(chance: &mut Chance) {
    let mut pair = begun(chance);
    for _ in 0..=chance.below(3) {
        pair.drive.power_for(chance.below(8 * FEW) as u64);
        let mut doubtful = Vec::new();
        for _ in 0..chance.below(12) {
            doubtful = group(chance);
            if pair.run(&doubtful) == Outcome::Refused {
                assert!(!pair.drive.has_power(), "refused for no reason");
                break;
            }
            doubtful.clear();
        }
        let mut drive = after_the_end(&pair.drive, chance);
        if chance.percent(30) {
            drive.power_for(chance.below(2 * FEW) as u64);
            if let Ok(store) = open(&drive, &pair.clock).and_then(OpenStore::start) {
                store.close();
            }
            drive = after_the_end(&drive, chance);
        }
        pair.comes_back(drive, &doubtful);
        assert_eq!(pair.run(&group(chance)), Outcome::Done);
        pair.agrees();
    }
}

/// The power goes while the file is made, or the process.
fn power_fails_at_the_first_start(chance: &mut Chance) {
    let clock = Clock::manual(Timestamp::from_millis(1_000));
    let drive = SimulatedDisk::holding(Vec::new(), chance.number());
    drive.power_for(chance.below(2 * FEW) as u64);
    if let Some(mut pair) = Pair::new(drive.clone(), clock.clone()) {
        let done = pair.run(&[Deed::Begin]);
        let doubtful: &[Deed] = if done == Outcome::Done { &[] } else { &[Deed::Begin] };
        let drive = after_the_end(&drive, chance);
        pair.comes_back(drive, doubtful);
        return;
    }
    // A file is made under another name and gets its own when it is whole: what is left of this one is thrown away.
    let again = Pair::new(SimulatedDisk::holding(Vec::new(), chance.number()), clock).unwrap();
    assert_eq!(again.run(&[Deed::Begin]), Outcome::Done);
}

const TROUBLES: [Trouble; 6] =
    [Trouble::Reads, Trouble::Writes, Trouble::Flushes, Trouble::FlushesThenReads, Trouble::Lengths, Trouble::Full];

/// The disk stops working for a while, in one way or another, and the power may go, or the process, before it works again or just as it does.
fn disk_fails(chance: &mut Chance) {
    let mut pair = begun(chance);
    for _ in 0..=chance.below(3) {
        for _ in 0..chance.below(4) {
            assert_eq!(pair.run(&group(chance)), Outcome::Done);
        }
        let mut trouble = *chance.pick(&TROUBLES);
        pair.drive.trouble(trouble);
        let mut doubtful = Vec::new();
        for _ in 0..=chance.below(8) {
            doubtful = group(chance);
            if pair.run(&doubtful) == Outcome::Refused {
                break;
            }
            doubtful.clear();
        }
        if !doubtful.is_empty() {
            assert!(!pair.store.is_alive());
            assert_eq!(pair.run(&group(chance)), Outcome::Refused, "nothing is written before the disk works again");
        }
        // One trouble follows another.
        if chance.percent(30) {
            trouble = *chance.pick(&TROUBLES);
            pair.drive.trouble(trouble);
            (0..=chance.below(3)).for_each(|_| tries_again(&pair));
            if pair.store.is_alive() {
                doubtful.clear();
            }
        }
        if matches!(trouble, Trouble::Reads | Trouble::FlushesThenReads) {
            // Whatever is read is right.
            let _ = dump(&pair.store).map(|found| same(&found, &dump(&pair.shadow).unwrap()));
        } else {
            pair.agrees();
        }
        if chance.percent(30) {
            let drive = after_the_end(&pair.drive, chance);
            pair.comes_back(drive, &doubtful);
            continue;
        }
        pair.drive.trouble(Trouble::None);
        if chance.percent(30) {
            pair.drive.power_for(chance.below(FEW) as u64);
            tries_again(&pair);
            if !pair.drive.has_power() {
                let drive = after_the_end(&pair.drive, chance);
                pair.comes_back(drive, &doubtful);
                continue;
            }
            pair.drive.power_for(u64::MAX);
        }
        recovers(&pair);
        pair.agrees();
    }
    let drive = pair.drive.after_power_loss();
    pair.comes_back(drive, &[]);
}

/// A disk that works again is found to.
fn recovers(pair: &Pair) {
    until("the disk works again and the store does not", || {
        pair.clock.advance(Duration::from_millis(1));
        pair.run(&[]) == Outcome::Done && pair.store.is_alive() && dump(&pair.store).is_ok()
    });
}

/// It is looked once more whether the disk works, and that goes well or not.
fn tries_again(pair: &Pair) {
    let failed = pair.drive.failed();
    pair.clock.advance(Duration::from_millis(1));
    until("nobody looks whether the disk works", || pair.store.is_alive() || pair.drive.failed() > failed || !pair.drive.has_power());
}

fn until(complaint: &str, done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{complaint}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The power goes while a damaged index is mended, or the process.
fn power_fails_during_repair(chance: &mut Chance) {
    const INDEX: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("index");
    let mut pair = begun(chance);
    for _ in 0..4 {
        assert_eq!(pair.run(&group(chance)), Outcome::Done);
    }
    pair.store.close();
    let content = SimulatedDisk::holding(pair.drive.content(), 0);
    let database = Database::builder().create_with_backend(content.clone()).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut index = transaction.open_table(INDEX).unwrap();
        let keys: Vec<Vec<u8>> = index.iter().unwrap().map(|row| row.unwrap().0.value().to_vec()).collect();
        for key in keys.iter().filter(|_| chance.percent(40)) {
            index.remove(key.as_slice()).unwrap();
        }
        index.insert(b"nobody's".as_slice(), b"".as_slice()).unwrap();
    }
    transaction.commit().unwrap();
    drop(database);
    let drive = SimulatedDisk::holding(content.content(), chance.number());
    drive.power_for((FEW + chance.below(FEW)) as u64);
    if let Ok(store) = open(&drive, &pair.clock).and_then(OpenStore::start) {
        drop(store.repair(Unreadable::Stays, &Progress::default()));
        store.close();
    }
    let drive = after_the_end(&drive, chance);
    let store = open(&drive, &pair.clock).and_then(OpenStore::start).unwrap();
    store.repair(Unreadable::Stays, &Progress::default()).unwrap();
    store.close();
    let drive = drive.after_power_loss();
    pair.comes_back(drive, &[]);
    assert_eq!(pair.run(&group(chance)), Outcome::Done);
    pair.agrees();
}

fn history(seed: u64) {
    let mut chance = Chance(seed);
    match chance.below(10) {
        0 => power_fails_at_the_first_start(&mut chance),
        1 => power_fails_during_repair(&mut chance),
        2..6 => disk_fails(&mut chance),
        _ => power_fails(&mut chance),
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
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
    assert!(failed.is_empty(), "replay with OVERKEEP_SEED set to one of {failed:?}");
}
