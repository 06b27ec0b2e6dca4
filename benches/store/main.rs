//! The cost of store operations, each as a ratio to a floor measured in the same run.
//!
//! `cargo bench --bench store`; `OVERKEEP_BENCH_DIR` names a directory on the disk to measure,
//! `OVERKEEP_BENCH_RECORDS` sets the number of records in the file that is checked and copied as a
//! whole.

#![allow(clippy::expect_used, clippy::indexing_slicing)]

#[path = "../common/stores.rs"]
mod stores;
mod whole;

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

use model::{
    clock::Timestamp,
    entity::{
        Entity, Field, FilterNames, Id, Kind, Logged, Lookup, Record, Roles, Stateful, TypedLookup,
    },
    error::Result,
};
use query::{Query, Type, Window};
use serde::{Deserialize, Serialize};
use store::{KindEntry, ListPlan, Scope, Store, encode};
use tempfile::TempDir;

/// A record of about 400 bytes with one unique and one role index, with or without history.
#[derive(Clone, Serialize, Deserialize)]
struct Row<const HISTORY: bool = true> {
    name: String,
    roles: Roles,
    text: String,
}

impl<const HISTORY: bool> Stateful for Row<HISTORY> {
    type State = ();
}

impl<const HISTORY: bool> Entity for Row<HISTORY> {
    const KIND: Kind = Kind {
        name: "thing",
        path: "things",
        noun: "thing",
    };
    const FIELDS: &'static [Field<Self>] = &[
        Field::unique("name", Type::Text, |r| (&r.spec.name).into()),
        Field::indexed("roles", Type::Set, |r| (&r.spec.roles).into()),
    ];
    const LOGGED: Logged = if HISTORY {
        Logged::Changes {
            secret: &[],
            quiet: &[],
        }
    } else {
        Logged::Nothing
    };
    type View = ();
    fn view(_: &Record<Self>, _: &dyn Lookup) -> Result<()> {
        Ok(())
    }
}

static KINDS: &[KindEntry] = &[KindEntry::of::<Row>()];
static KINDS_WITHOUT_HISTORY: &[KindEntry] = &[KindEntry::of::<Row<false>>()];
const MANY: u64 = 100_000;

fn thing<const HISTORY: bool>(n: u64) -> Record<Row<HISTORY>> {
    // Ids in random order.
    let id = format!("{:016x}-{n:08}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let roles = Roles::from_iter([format!("role {}", n % 50)]);
    Record::new(
        Id::from_text(id),
        Timestamp::from_millis(n as i64),
        Row {
            name: format!("thing number {n}"),
            roles,
            text: "x".repeat(340),
        },
    )
}

fn main() {
    let home =
        std::env::var("OVERKEEP_BENCH_DIR").map_or_else(|_| std::env::temp_dir(), PathBuf::from);
    let directory = TempDir::new_in(home).expect("a directory");
    println!(
        "record: {} bytes encoded\n",
        encode(&thing::<true>(1)).expect("bytes").len()
    );
    writes(directory.path());
    history(directory.path());
    reads(directory.path());
    whole::whole(directory.path());
}

fn writes(directory: &Path) {
    println!(
        "{:<22}{:>12}{:>12}{:>10}{:>8}{:>16}",
        "durable writes", "per second", "fdatasyncs", "x floor", "goal", "CPU us each"
    );
    for (writers, goal) in [(1, "0.40"), (16, ""), (64, "2.50"), (256, "3.00")] {
        // Measured in alternation, because the speed of a shared disk changes within seconds; the
        // median of five rounds.
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
        println!(
            "{:<22}{rate:>12.0}{floor:>12.0}{ratio:>10.2}{goal:>8}{cpu:>16.0}",
            format!("{writers} at a time")
        );
    }
    println!();
}

/// The share of the history in a write: the same records with and without history, in alternation,
/// so that both meet the same disk load; the median of many rounds.
fn history(directory: &Path) {
    println!(
        "{:<22}{:>12}{:>12}{:>10}{:>8}",
        "what history costs", "us without", "us with", "slower", "goal"
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    for (writers, turns, goal) in [(1, 2_000, "15 %"), (64, 200, "")] {
        let open =
            |name: &str, kinds| stores::start(&directory.join(format!("{name}-{writers}")), kinds);
        let (without_history, with_history) =
            (open("without", KINDS_WITHOUT_HISTORY), open("with", KINDS));
        let mut times: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        for turn in 0..turns {
            times[0].push(runtime.block_on(together::<false>(
                &without_history,
                turn * writers,
                writers,
            )));
            times[1].push(runtime.block_on(together::<true>(
                &with_history,
                turn * writers,
                writers,
            )));
        }
        let [without, with] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        let cost = format!("{:.0} %", (with / without - 1.0) * 100.0);
        println!(
            "{:<22}{without:>12.0}{with:>12.0}{cost:>10}{goal:>8}",
            format!("{writers} at a time")
        );
    }
    println!();
}

/// Microseconds until so many writes, all started at once, are on disk.
async fn together<const HISTORY: bool>(store: &Store, first: u64, count: u64) -> f64 {
    let start = Instant::now();
    let writes =
        (first..first + count).map(|n| store.write(move |tx| tx.insert(thing::<HISTORY>(n))));
    for write in futures_util::future::join_all(writes).await {
        write.expect("a write");
    }
    start.elapsed().as_secs_f64() * 1e6
}

/// Rewrites of a page in a file of full length, one at a time, each followed by fdatasync, per
/// second.
fn fdatasyncs(path: &Path) -> f64 {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .expect("a file");
    file.write_all_at(&vec![1; 1 << 20], 0)
        .and_then(|()| file.sync_all())
        .expect("a page");
    let (start, mut count) = (Instant::now(), 0_u64);
    while start.elapsed() < Duration::from_millis(400) {
        file.write_all_at(&[count as u8; 4096], count % 256 * 4096)
            .and_then(|()| file.sync_data())
            .expect("a sync");
        count += 1;
    }
    count as f64 / start.elapsed().as_secs_f64()
}

/// Writes per second, and microseconds of CPU per write, with so many tasks that each write one
/// after the other.
fn written(path: &Path, writers: usize) -> (f64, f64) {
    let store = stores::start(path, KINDS);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .expect("a runtime");
    let next = Arc::new(AtomicU64::new(0));
    let (start, cpu) = (Instant::now(), cpu());
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let (store, next) = (store.clone(), next.clone());
            runtime.spawn(async move {
                while start.elapsed() < Duration::from_millis(1_000) {
                    let record = thing::<true>(next.fetch_add(1, Relaxed));
                    store.write(|tx| tx.insert(record)).await.expect("a write");
                }
            })
        })
        .collect();
    tasks
        .into_iter()
        .for_each(|task| runtime.block_on(task).expect("a task"));
    let count = next.load(Relaxed) as f64;
    (
        count / start.elapsed().as_secs_f64(),
        (self::cpu() - cpu) / count * 1e6,
    )
}

/// Seconds of CPU this process has used.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: u64 = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split(' ')
        .skip(12)
        .take(2)
        .filter_map(|word| word.parse::<u64>().ok())
        .sum();
    ticks as f64 / 100.0
}

fn reads(directory: &Path) {
    let store = stores::start(&directory.join("reads"), KINDS);
    let start = Instant::now();
    for first in (0..MANY).step_by(10_000) {
        store
            .write_blocking(move |tx| {
                (first..first + 10_000).try_for_each(|n| tx.insert(thing::<true>(n)))
            })
            .expect("a write");
    }
    println!(
        "{:<54}{:>12}{:>12}",
        format!("reads, of {MANY} records"),
        "us",
        "x floor"
    );
    println!(
        "{:<54}{:>12.1}",
        "loading them, each",
        start.elapsed().as_secs_f64() * 1e6 / MANY as f64
    );
    let bytes = encode(&thing::<true>(1)).expect("bytes");
    let id = thing::<true>(1).id;
    let floor = timed(20_000, |_| {
        drop(black_box(store::decode::<Row<true>>(id.as_str(), &bytes)))
    });
    println!(
        "{:<54}{floor:>12.2}{:>12}",
        "decoding one from memory", "1.0"
    );
    let row = |name: &str, each: f64, units: f64| {
        println!("{name:<54}{each:>12.2}{:>12.1}", each / units / floor)
    };
    row(
        "opening a read",
        timed(20_000, |_| drop(store.read(|_| Ok(())))),
        1.0,
    );
    let ids: Vec<Id<Row>> = (0..20_000).map(|n| thing::<true>(n * 5).id).collect();
    row(
        "point read",
        timed(20_000, |n| {
            drop(black_box(store.read(|tx| tx.get(&ids[n as usize]))))
        }),
        1.0,
    );
    row(
        "ten of them in one read",
        timed(5_000, |n| {
            drop(store.read(|tx| {
                ids.iter()
                    .skip(n as usize)
                    .take(10)
                    .try_for_each(|id| tx.get(id).map(drop))
            }))
        }),
        10.0,
    );
    let list = |text: &str| {
        let query = Query::parse(text, FilterNames::<Row>::ALL).expect("a query");
        let window = Window::new(&query, None, None);
        let list = || {
            store
                .read(|tx| ListPlan::<Row>::of(query.clone(), window, Scope::All).page(tx))
                .expect("a page")
        };
        assert!(list().total > 0);
        let count = if text.contains("sort") || text.contains("contains") {
            5
        } else {
            200
        };
        timed(count, |_| drop(black_box(list())))
    };
    row("page of 500", list("true limit 500"), 500.0);
    row(
        "page of 500, 50,000 in",
        list("true skip 50000 limit 500"),
        500.0,
    );
    row("name = \"..\"", list("name = \"thing number 4711\""), 1.0);
    row(
        "anyOf(roles) = \"..\", 2,000 match",
        list("anyOf(roles) = \"role 7\""),
        2_000.0,
    );
    row(
        "name contains \"..\" over all",
        list("name contains \"9999\""),
        MANY as f64,
    );
    row(
        "sort by name over all, page of 10",
        list("true sort by name desc"),
        MANY as f64,
    );
    row(
        "visiting all",
        timed(5, |_| {
            store
                .read(|tx| {
                    tx.each::<Row>(|thing| {
                        black_box(thing);
                        Ok(())
                    })
                })
                .expect("all")
        }),
        MANY as f64,
    );
}

fn seconds(act: impl FnOnce()) -> f64 {
    let start = Instant::now();
    act();
    start.elapsed().as_secs_f64()
}

/// Microseconds per call.
fn timed(count: u64, mut act: impl FnMut(u64)) -> f64 {
    let start = Instant::now();
    (0..count).for_each(&mut act);
    start.elapsed().as_secs_f64() * 1e6 / count as f64
}
