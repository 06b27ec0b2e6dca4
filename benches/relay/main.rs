//! The cost of traffic through the built-in router, beside floors of the same run: a relay of the
//! same crates that only copies between TLS connections, and one TLS connection over the loopback
//! interface.
//!
//! `cargo bench --bench relay`, or some parts by name: `-- bulk dials ping idle rest hellos stalled
//! refilled stampede`. The router runs as a child process, so that its CPU time is its own; clients
//! and hosts run in this process and share the cores with it. `OVERKEEP_BENCH_DIR` names a
//! directory on the disk to use. `OVERKEEP_BENCH_ZITI` names the `ziti` program of a Go router: the
//! parts `bulk` and `dials` then run a second time over it, and `controllers` compares the
//! controller with that of the same program. `OVERKEEP_BENCH_SHORT` makes these parts short, to see
//! that they work.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)] // a bench that panics says so

#[allow(dead_code, reason = "other benches need more of it")]
#[path = "../flood/controller.rs"]
mod controller;
mod crowds;
mod elsewhere;
mod floor;
mod hellos;
mod parts;
#[path = "../common/process.rs"]
mod process;
mod refilled;
#[path = "../../tests/sdk/mod.rs"]
mod sdk;
#[path = "../common/spent.rs"]
mod spent;
mod stage;
#[path = "../common/tls.rs"]
mod tls;
#[allow(dead_code, reason = "other benches need more of it")]
#[path = "../flood/wire.rs"]
mod wire;

use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;

use stage::Stage;

/// A part of the bench, by name.
type Part = (&'static str, fn(&Stage));

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == floor::PLAIN) {
        return floor::relay();
    }
    let files = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: files.maximum,
            ..files
        },
    )
    .expect("as many files as are allowed");
    let home =
        std::env::var("OVERKEEP_BENCH_DIR").map_or_else(|_| std::env::temp_dir(), PathBuf::from);
    let directory = TempDir::new_in(home).expect("a directory");
    let mut stage = Stage::new(directory.path());
    let parts: [Part; 6] = [
        ("bulk", parts::bulk),
        ("dials", parts::dials),
        ("ping", parts::ping),
        ("idle", parts::idle),
        ("rest", parts::rest),
        ("hellos", hellos::hellos),
    ];
    let asked: Vec<&String> = words
        .iter()
        .filter(|word| !word.starts_with("--"))
        .collect();
    let is_asked = |part: &str| asked.is_empty() || asked.iter().any(|word| *word == part);
    println!(
        "{:<52}{:>12}{:>12}{:>9}   goal",
        "", "floor", "router", "ratio"
    );
    for (_, part) in parts.iter().filter(|(name, _)| is_asked(name)) {
        part(&stage);
    }
    // Each after a restart, so that the peak of memory is its own.
    let crowds: [Part; 3] = [
        ("stalled", crowds::stalled),
        ("refilled", refilled::refilled),
        ("stampede", crowds::stampede),
    ];
    for (_, crowd) in crowds.iter().filter(|(name, _)| is_asked(name)) {
        stage = stage.restarted(directory.path());
        crowd(&stage);
    }
    drop(stage);
    if let Some(program) = std::env::var_os("OVERKEEP_BENCH_ZITI").map(PathBuf::from) {
        println!("a Go router in place of the router");
        let directory = directory.path().join("elsewhere");
        std::fs::create_dir(&directory).expect("a directory");
        let stage = Stage::elsewhere(&directory, &program);
        for (_, part) in parts.iter().take(2).filter(|(name, _)| is_asked(name)) {
            part(&stage);
        }
        if is_asked("controllers") {
            let directory = directory.join("of-go");
            std::fs::create_dir(&directory).expect("a directory");
            parts::controllers(&Stage::of_go(&directory, &program), &stage);
        }
    }
}

/// The goal for a figure as text, and whether it is met.
type Goal = (&'static str, bool);

fn row(what: &str, floor: f64, router: f64, goal: Option<Goal>) {
    let goal = goal.map_or(String::new(), |(goal, met)| {
        format!("{goal}: {}", if met { "met" } else { "missed" })
    });
    println!(
        "{what:<52}{floor:>12.3}{router:>12.3}{:>9.2}   {goal}",
        router / floor
    );
}

/// The value below which this share of all values lies.
fn percentile(mut of: Vec<f64>, share: f64) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of[((of.len() as f64 * share) as usize).min(of.len() - 1)]
}
