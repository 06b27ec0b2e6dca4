//! Whatever an attacker sends or writes into a file is answered or rejected: nothing panics,
//! nothing hangs, and the next request is served.
//!
//! Each target randomly changes valid input and runs for `OVERKEEP_FUZZ_SECONDS` (10 by default, so
//! that all targets take a minute), and for a minimum number of cases. A failing case prints its
//! number; `OVERKEEP_FUZZ_CASE` runs that one alone. To run one target for an hour:
//! `OVERKEEP_FUZZ_SECONDS=3600 cargo test --locked --test promises -- --ignored fuzz::filters`.

mod certificates;
mod http;
mod stored;

use std::{
    env, fs,
    panic::{self, AssertUnwindSafe},
    path::Path,
    process,
    sync::{
        Arc, Mutex, Once,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use maintenance::{offline, restore, snapshot_proof};
use model::{
    clock::{Clock, Timestamp},
    config::Config,
};
use overkeep::testing::controller;
use policy::change::KINDS;
use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, TableHandle,
};
use store::{Progress, Unreadable};

use crate::{
    backup::DataFile,
    harness::{TestServer, Wire, encoded, frame, shared},
    simulated_disk::Rng,
};

/// A case that takes this long must be examined.
const HANG: Duration = Duration::from_secs(180);

/// Panics in our code, wherever they were caught.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn listen_for_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if info.location().is_some_and(|at| {
                ["src/", "crates/"]
                    .iter()
                    .any(|own| at.file().starts_with(own))
            }) {
                PANICS.lock().unwrap().push(info.to_string());
            }
            before(info);
        }));
    });
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Runs cases until the time is over, at least `least`.
pub fn target(name: &'static str, least: u64, mut case: impl FnMut(&mut Rng)) {
    listen_for_panics();
    let (only, seconds) = (
        number("OVERKEEP_FUZZ_CASE"),
        number("OVERKEEP_FUZZ_SECONDS").unwrap_or(10),
    );
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64;
    let (first, begun) = (only.unwrap_or(now), Instant::now());
    let current = Arc::new(AtomicU64::new(first));
    let watched = Arc::downgrade(&current);
    thread::spawn(move || {
        let (mut seen, mut since) = (0, Instant::now());
        while let Some(current) = watched.upgrade() {
            let at = current.load(Ordering::Relaxed);
            if at != seen {
                (seen, since) = (at, Instant::now());
            } else if since.elapsed() > HANG {
                eprintln!("{name} hangs: OVERKEEP_FUZZ_CASE={at}");
                process::abort();
            }
            drop(current);
            thread::sleep(Duration::from_secs(1));
        }
    });
    for n in 0.. {
        let at = first.wrapping_add(n);
        current.store(at, Ordering::Relaxed);
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| case(&mut Rng(at))));
        let panics = PANICS.lock().unwrap().clone();
        assert!(
            outcome.is_ok() && panics.is_empty(),
            "{name}: OVERKEEP_FUZZ_CASE={at} {panics:?}"
        );
        if only.is_some() || n + 1 >= least && begun.elapsed() >= Duration::from_secs(seconds) {
            return eprintln!("{name}: {} cases", n + 1);
        }
    }
}

/// Changes some bytes: flips a bit, replaces, deletes, inserts, or repeats a part.
pub fn change(bytes: &mut Vec<u8>, rng: &mut Rng) {
    const ODD: [u8; 12] = [0, 1, 9, 10, 13, 32, 34, 37, 0x7f, 0x80, 0xfe, 0xff];
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len() + 1);
        let end = (at + 1 + rng.below(16)).min(bytes.len());
        match rng.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 if at < bytes.len() => bytes[at] = *rng.pick(&ODD),
            2 => drop(bytes.splice(at..end.max(at), [])),
            3 => drop(bytes.splice(at..at, [*rng.pick(&ODD), rng.number() as u8])),
            4 => {
                let part = bytes[at..end.max(at)].to_vec();
                let to = rng.below(bytes.len() + 1);
                drop(bytes.splice(to..to, part));
            }
            _ if rng.percent(20) => bytes.truncate(at),
            _ => {}
        }
    }
}

// Query parameters.

#[test]
#[ignore = "endurance"]
fn filters() {
    const WORDS: [&str; 46] = [
        "name",
        "id",
        "tags.a",
        "tags.a.b",
        "roleAttributes",
        "createdAt",
        "isAdmin",
        "isSystem",
        "type",
        "configs",
        "service.name",
        "identity",
        "=",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "in",
        "not in",
        "contains",
        "not contains",
        "icontains",
        "not icontains",
        "between",
        "not between",
        "and",
        "or",
        "not",
        "(",
        ")",
        "[",
        "]",
        ",",
        "anyOf(",
        "allOf(",
        "noneOf(",
        "count(",
        "isEmpty(",
        "from",
        "where",
        "sort by",
        "limit",
        "skip",
        "none",
        "asc",
    ];
    const VALUES: [&str; 16] = [
        "\"a\"",
        "\"\"",
        "\"\\\"\\\\\"",
        "'a'",
        "1",
        "-1",
        "1.5e308",
        "99999999999999999999",
        "true",
        "false",
        "null",
        "datetime(2026-01-01T00:00:00Z)",
        "datetime(9999-99-99T99:99:99Z)",
        "\"\u{130}\u{df}\u{0}\"",
        "[1,2]",
        "[\"a\",\"b\"]",
    ];
    const PATHS: [&str; 8] = [
        "/identities",
        "/services",
        "/edge-routers",
        "/configs",
        "/terminators",
        "/service-policies",
        "/api-sessions",
        "/enrollments",
    ];
    let server = shared();
    target("filters", 200, |rng| {
        let mut text = Vec::new();
        for _ in 0..1 + rng.below(14) {
            let deep = rng.percent(2);
            let word = if rng.percent(30) {
                *rng.pick(&VALUES)
            } else {
                *rng.pick(&WORDS)
            };
            (0..if deep { 1 + rng.below(300) } else { 1 })
                .for_each(|_| text.extend([word.as_bytes(), b" "].concat()));
        }
        if rng.percent(30) {
            let mut sound = b"name = \"a\" and (anyOf(roleAttributes) in [\"b\"] or not createdAt < datetime(2026-01-01T00:00:00Z)) sort by name limit 3".to_vec();
            change(&mut sound, rng);
            text = sound;
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        let path = rng.pick(&PATHS);
        let member = *rng.pick(&[
            "filter",
            "filter",
            "filter",
            "sort",
            "limit",
            "offset",
            "roleFilter",
        ]);
        let answer = server
            .admin
            .get(&format!("{path}?{member}={}", encoded(&text)));
        assert!(
            [200, 400, 414, 431].contains(&answer.status),
            "{path} {member} {text:?}: {}",
            answer.text
        );
    });
}
