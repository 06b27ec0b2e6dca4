//! Whatever a disk does, everything acknowledged is in the file, and no transaction is there in
//! part.
//!
//! A store with the controller's kinds runs on a [`SimulatedDisk`], with a manual clock. Random
//! groups of jobs run on it and, at the same time, on a store whose disk never fails; the two must
//! have the same content. Power is lost, or only the process is killed, at any operation, also
//! while the file is created, opened or repaired; or the disk fails for a while. One number, the
//! seed, decides everything: `OVERKEEP_SEEDS=n` runs n seeds, from `OVERKEEP_FIRST_SEED` on;
//! `OVERKEEP_SEED=n` runs the one that failed.

mod jobs;
mod pair;

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use model::clock::{Clock, Timestamp};
use redb::{Database, ReadableTable, TableDefinition};
use store::{OpenStore, Progress, Unreadable};

use jobs::{Job, group};
use pair::{Outcome, Pair, after_first_start, dump, open, same};

use crate::simulated_disk::{DiskFault, Rng, SimulatedDisk};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// More operations than one or two openings of the file need.
const FEW: usize = 60;

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
