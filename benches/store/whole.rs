//! Checking and copying a file as a whole.

use std::{
    fs::File,
    hint::black_box,
    io::Read,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use store::{Progress, Store};

use super::{KINDS, seconds, stores, thing};

/// The number of concurrent writers while the file is checked or copied as a whole.
const BESIDE: u64 = 16;

/// Checking and copying the whole file, and the effect on concurrent writers.
pub(crate) fn whole(directory: &Path) {
    let records = std::env::var("OVERKEEP_BENCH_RECORDS").map_or(1_000_000, |records| {
        records.parse().expect("a number of records")
    });
    let path = directory.join("whole");
    let store = stores::start(&path, KINDS);
    for first in (0..records).step_by(10_000) {
        store
            .write_blocking(move |tx| {
                (first..records.min(first + 10_000)).try_for_each(|n| tx.insert(thing::<true>(n)))
            })
            .expect("a write");
    }
    let floor = seconds(|| assert!(black_box(read_through(&path)) > 0));
    println!(
        "\n{:<36}{:>10}{:>10}{:>8}{:>22}",
        format!("the whole file, {records} records"),
        "seconds",
        "x floor",
        "goal",
        "rate, longest write"
    );
    println!("{:<36}{floor:>10.2}{:>10}", "reading all its bytes", "1.0");
    let (quiet, longest, _) = while_writing(&store, || std::thread::sleep(Duration::from_secs(3)));
    println!(
        "{:<36}{:>28}{:>22}",
        format!("{BESIDE} writers, quiet"),
        "",
        format!("1.00, {longest:.0} ms")
    );
    let check = || {
        assert_eq!(
            store.check(&Progress::default()).expect("a check").findings,
            []
        )
    };
    let alone = seconds(check);
    println!(
        "{:<36}{alone:>10.2}{:>10.1}{:>8}",
        "checking it, alone",
        alone / floor,
        "5 s"
    );
    let row = |name: &str, goal: &str, (rate, longest, time): (f64, f64, f64)| {
        let beside = format!("{:.2}, {longest:.0} ms", rate / quiet);
        println!(
            "{name:<36}{time:>10.2}{:>10.1}{goal:>8}{beside:>22}",
            time / floor
        );
    };
    row(
        "checking it, beside writers",
        "",
        while_writing(&store, check),
    );
    let copy = directory.join("copy");
    row(
        "a snapshot, beside writers",
        "0.35",
        while_writing(&store, || {
            drop(
                store
                    .snapshot(&copy, &Progress::default())
                    .expect("a snapshot"),
            )
        }),
    );
}

/// The sum of all bytes of a file.
fn read_through(path: &Path) -> u64 {
    let (mut file, mut bytes, mut sum) = (File::open(path).expect("a file"), vec![0; 1 << 20], 0);
    loop {
        match file.read(&mut bytes).expect("bytes") {
            0 => return sum,
            read => {
                sum += bytes[..read]
                    .iter()
                    .map(|byte| u64::from(*byte))
                    .sum::<u64>()
            }
        }
    }
}

/// Does something while others write. Returns the writes per second, the longest write in
/// milliseconds, and the duration in seconds.
fn while_writing(store: &Store, act: impl FnOnce()) -> (f64, f64, f64) {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
    let over = AtomicBool::new(false);
    let write = || {
        let (mut count, mut longest) = (0, 0.0_f64);
        while !over.load(Relaxed) {
            let record = thing::<true>(NEXT.fetch_add(1, Relaxed));
            longest = longest.max(seconds(|| {
                store
                    .write_blocking(|tx| tx.insert(record))
                    .expect("a write")
            }));
            count += 1;
        }
        (count, longest)
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..BESIDE).map(|_| scope.spawn(write)).collect();
        let time = seconds(act);
        over.store(true, Relaxed);
        let done: Vec<(u64, f64)> = writers
            .into_iter()
            .map(|writer| writer.join().expect("a writer"))
            .collect();
        let count: u64 = done.iter().map(|(count, _)| count).sum();
        (
            count as f64 / time,
            done.iter()
                .map(|(_, longest)| longest * 1e3)
                .fold(0.0, f64::max),
            time,
        )
    })
}
