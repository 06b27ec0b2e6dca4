//! What the store costs, each as a ratio to a floor measured in the same run.
//!
//! `cargo bench --bench store`; `OVERKEEP_BENCH_DIR` names a directory on the disk to measure.

#![allow(clippy::expect_used, clippy::indexing_slicing)]

use std::{
    fs::OpenOptions,
    hint::black_box,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use overkeep::{
    clock::Timestamp,
    entity::{Entity, Facts, FactsExt, Field, Id, Kind, Record, Roles, Words},
    error::Result,
    query::{Query, Type, Window},
    store::{Entry, Options, Scope, Store, encode},
};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

/// A record of about 400 bytes with one unique and one role index.
#[derive(Clone, Serialize, Deserialize)]
struct Thing {
    name: String,
    roles: Roles,
    text: String,
}

impl Entity for Thing {
    const KIND: Kind = Kind { name: "thing", path: "things" };
    const FIELDS: &'static [Field<Self>] =
        &[Field::unique("name", Type::Text, |r| (&r.spec.name).into()), Field::indexed("roles", Type::Set, |r| (&r.spec.roles).into())];
    type State = ();
    type View = ();
    fn view(_: &Record<Self>, _: &dyn Facts) -> Result<()> {
        Ok(())
    }
}

static KINDS: &[Entry] = &[Entry::of::<Thing>()];
const MANY: u64 = 100_000;

fn thing(n: u64) -> Record<Thing> {
    // Ids as they are in practice: in no order.
    let id = format!("{:016x}-{n:08}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let roles = Roles::from_iter([format!("role {}", n % 50)]);
    Record::new(
        Id::from_text(id),
        Timestamp::from_millis(n as i64),
        Thing { name: format!("thing number {n}"), roles, text: "x".repeat(340) },
    )
}

fn main() {
    let home = std::env::var("OVERKEEP_BENCH_DIR").map_or_else(|_| std::env::temp_dir(), PathBuf::from);
    let directory = TempDir::new_in(home).expect("a directory");
    println!("record: {} bytes encoded\n", encode(&thing(1)).expect("bytes").len());
    writes(directory.path());
    reads(directory.path());
}

fn writes(directory: &Path) {
    println!("{:<22}{:>12}{:>12}{:>10}{:>8}{:>16}", "durable writes", "per second", "fdatasyncs", "x floor", "goal", "CPU us each");
    for (writers, goal) in [(1, "0.40"), (16, ""), (64, "2.50"), (256, "3.00")] {
        // In turns, because a disk that others share changes its mind within seconds; the middle one of five.
        let mut rounds: Vec<(f64, f64, f64, f64)> = (0..5)
            .map(|n| {
                let before = fdatasyncs(&directory.join("floor"));
                let (rate, cpu) = written(&directory.join(format!("{writers}-{n}")), writers);
                let floor = (before + fdatasyncs(&directory.join("floor"))) / 2.0;
                (rate / floor, rate, floor, cpu)
            })
            .collect();
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ratio, rate, floor, cpu) = rounds[2];
        println!("{:<22}{rate:>12.0}{floor:>12.0}{ratio:>10.2}{goal:>8}{cpu:>16.0}", format!("{writers} at a time"));
    }
    println!();
}

/// Rewrites of a page in a file of full length, one at a time, each followed by fdatasync, per second.
fn fdatasyncs(path: &Path) -> f64 {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path).expect("a file");
    file.write_all_at(&vec![1; 1 << 20], 0).and_then(|()| file.sync_all()).expect("a page");
    let (start, mut count) = (Instant::now(), 0_u64);
    while start.elapsed() < Duration::from_millis(400) {
        file.write_all_at(&[count as u8; 4096], count % 256 * 4096).and_then(|()| file.sync_data()).expect("a sync");
        count += 1;
    }
    count as f64 / start.elapsed().as_secs_f64()
}

/// Writes per second, and microseconds of CPU for each, with so many tasks that write one after the other.
fn written(path: &Path, writers: usize) -> (f64, f64) {
    let store = Store::open(path, KINDS, Options::default()).expect("a store");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let next = Arc::new(AtomicU64::new(0));
    let (start, cpu) = (Instant::now(), cpu());
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let (store, next) = (store.clone(), next.clone());
            runtime.spawn(async move {
                while start.elapsed() < Duration::from_millis(1_000) {
                    let record = thing(next.fetch_add(1, Relaxed));
                    store.write(|tx| tx.insert(record)).await.expect("a write");
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| runtime.block_on(task).expect("a task"));
    let count = next.load(Relaxed) as f64;
    (count / start.elapsed().as_secs_f64(), (self::cpu() - cpu) / count * 1e6)
}

/// Seconds of CPU this process has used.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: u64 =
        stat.rsplit(')').next().unwrap_or_default().split(' ').skip(12).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

fn reads(directory: &Path) {
    let store = Store::open(&directory.join("reads"), KINDS, Options::default()).expect("a store");
    let start = Instant::now();
    for first in (0..MANY).step_by(10_000) {
        store.write_blocking(move |tx| (first..first + 10_000).try_for_each(|n| tx.insert(thing(n)))).expect("a write");
    }
    println!("{:<54}{:>12}{:>12}", format!("reads, of {MANY} records"), "us", "x floor");
    println!("{:<54}{:>12.1}", "loading them, each", start.elapsed().as_secs_f64() * 1e6 / MANY as f64);
    let bytes = encode(&thing(1)).expect("bytes");
    let id = thing(1).id;
    let floor = timed(20_000, |_| drop(black_box(overkeep::store::decode::<Thing>(id.as_str(), &bytes))));
    println!("{:<54}{floor:>12.2}{:>12}", "decoding one from memory", "1.0");
    let row = |name: &str, each: f64, units: f64| println!("{name:<54}{each:>12.2}{:>12.1}", each / units / floor);
    row("opening a read", timed(20_000, |_| drop(store.read(|_| Ok(())))), 1.0);
    let ids: Vec<Id<Thing>> = (0..20_000).map(|n| thing(n * 5).id).collect();
    row("point read", timed(20_000, |n| drop(black_box(store.read(|tx| tx.get(&ids[n as usize]))))), 1.0);
    row(
        "ten of them in one read",
        timed(5_000, |n| drop(store.read(|tx| ids.iter().skip(n as usize).take(10).try_for_each(|id| tx.get(id).map(drop))))),
        10.0,
    );
    let list = |text: &str| {
        let query = Query::parse(text, Words::<Thing>::WORDS).expect("a query");
        let list = || store.read(|tx| tx.select::<Thing>(&query, Window::new(&query, None, None), Scope::All)).expect("a page");
        assert!(list().total > 0);
        let count = if text.contains("sort") || text.contains("contains") { 5 } else { 200 };
        timed(count, |_| drop(black_box(list())))
    };
    row("page of 500", list("true limit 500"), 500.0);
    row("page of 500, 50,000 in", list("true skip 50000 limit 500"), 500.0);
    row("name = \"..\"", list("name = \"thing number 4711\""), 1.0);
    row("anyOf(roles) = \"..\", 2,000 match", list("anyOf(roles) = \"role 7\""), 2_000.0);
    row("name contains \"..\" over all", list("name contains \"9999\""), MANY as f64);
    row("sort by name over all, page of 10", list("true sort by name desc"), MANY as f64);
    row(
        "visiting all",
        timed(5, |_| {
            store
                .read(|tx| {
                    tx.each::<Thing>(|thing| {
                        black_box(thing);
                        Ok(())
                    })
                })
                .expect("all")
        }),
        MANY as f64,
    );
}

/// Microseconds each.
fn timed(count: u64, mut act: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    (0..count).for_each(&mut act);
    start.elapsed().as_secs_f64() * 1e6 / count as f64
}
