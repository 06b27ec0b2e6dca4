//! The cost of remote routers: circuits over many routers beside circuits over few, other paths
//! after the loss of a link, memory, and how soon routers hear of a change. The routers are
//! simulated by this process and accept every route at once.
//!
//! `cargo bench --bench control`, or some parts by name: `-- memory circuits paths changes
//! reconnect`. `OVERKEEP_BENCH_CIRCUITS` is the number of circuits (10000),
//! `OVERKEEP_BENCH_ROUTERS` the number of routers (100), of which a tenth are the floor,
//! `OVERKEEP_BENCH_RECONNECTING` the number of routers that connect at once (1000);
//! `OVERKEEP_BENCH_DIR` names a directory on the disk to use.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)] // a bench that panics says so

#[allow(dead_code, reason = "other benches need more of it")]
#[path = "../flood/controller.rs"]
mod controller;
mod network;
#[path = "../common/process.rs"]
mod process;
mod reconnect;
mod router;
#[path = "../common/spent.rs"]
mod spent;
#[path = "../common/tls.rs"]
mod tls;
#[allow(dead_code, reason = "other benches need more of it")]
#[path = "../flood/wire.rs"]
mod wire;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tempfile::TempDir;
use tokio::{runtime::Runtime, time::timeout};

use controller::Controller;
use network::Network;
use router::Told;
use spent::Spent;

/// The number of circuits that are opened at the same time.
const AT_ONCE: usize = 16;
/// The part of the circuits that is opened one after the other.
const SINGLE: usize = 10;
const PATIENCE: Duration = Duration::from_secs(60);
const CHANGES: usize = 20;
/// The allocator keeps freed memory for up to ten seconds.
const SETTLING: Duration = Duration::from_secs(15);

fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let is_asked = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    let number = |name: &str, default: usize| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let (circuits, routers) = (
        number("OVERKEEP_BENCH_CIRCUITS", 10_000),
        number("OVERKEEP_BENCH_ROUTERS", 100),
    );
    let home =
        std::env::var("OVERKEEP_BENCH_DIR").map_or_else(|_| std::env::temp_dir(), PathBuf::from);
    let directory = TempDir::new_in(home).expect("a directory");
    let runtime = Runtime::new().expect("a runtime");
    println!(
        "{:<60}{:>12}{:>12}{:>9}   goal",
        "", "floor", "measured", "ratio"
    );
    if is_asked("circuits") {
        // Each network ends before the next begins.
        let few = opened(
            &runtime,
            &directory.path().join("few"),
            (routers / 10).max(3),
            circuits,
        );
        let many = opened(&runtime, &directory.path().join("many"), routers, circuits);
        let what = |what: &str| format!("{what}, {} routers as floor", (routers / 10).max(3));
        row(
            &what("a circuit is set up, median ms"),
            few.median,
            many.median,
            Some(1.5),
        );
        row(&what("a circuit, CPU ms"), few.cpu, many.cpu, Some(1.5));
        row(
            &what("circuits per second"),
            few.per_second,
            many.per_second,
            None,
        );
    }
    if ["memory", "paths", "changes"].into_iter().any(is_asked) {
        let network = connected(
            &runtime,
            &directory.path().join("rest"),
            routers,
            is_asked("memory"),
        );
        if is_asked("paths") {
            paths(&runtime, &network, circuits);
        }
        if is_asked("changes") {
            changes(&runtime, &network);
        }
    }
    if is_asked("reconnect") {
        reconnect::reconnect(
            &runtime,
            &directory.path().join("reconnect"),
            number("OVERKEEP_BENCH_RECONNECTING", 1000),
        );
    }
}

/// Prints a figure; `goal` is the maximum ratio. Without a floor, that is 0, there is none.
fn row(what: &str, floor: f64, measured: f64, goal: Option<f64>) {
    let ratio = measured / floor;
    let goal = goal.map_or(String::new(), |goal| {
        format!("{goal}: {}", if ratio <= goal { "met" } else { "missed" })
    });
    let ratio = if floor > 0.0 {
        format!("{ratio:.2}")
    } else {
        String::new()
    };
    println!("{what:<60}{floor:>12.3}{measured:>12.3}{ratio:>9}   {goal}");
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of[of.len() / 2]
}

/// The cost of circuits.
struct OpeningCost {
    per_second: f64,
    /// In milliseconds.
    cpu: f64,
    median: f64,
}

/// Opens so many circuits, which stay open, over so many routers.
fn opened(runtime: &Runtime, directory: &Path, routers: usize, circuits: usize) -> OpeningCost {
    let network = Arc::new(Network::new(runtime, directory, routers, |_, connect| {
        connect()
    }));
    let (single, next) = (circuits / SINGLE, Arc::<AtomicUsize>::default());
    let at_once = circuits - single;
    let (before, start) = (Spent::of(network.controller.id()), Instant::now());
    runtime.block_on(async {
        let dialing: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let (network, next) = (network.clone(), next.clone());
                tokio::spawn(async move {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= at_once {
                            return;
                        }
                        network.dial(number).await;
                    }
                })
            })
            .collect();
        for dialing in dialing {
            dialing.await.expect("circuits");
        }
    });
    let (seconds, cpu) = (
        start.elapsed().as_secs_f64(),
        Spent::of(network.controller.id()).since(&before),
    );
    let times = runtime.block_on(async {
        let mut times = Vec::with_capacity(single);
        for number in 0..single {
            let start = Instant::now();
            network.dial(number).await;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times
    });
    OpeningCost {
        per_second: at_once as f64 / seconds,
        cpu: cpu * 1e3 / at_once as f64,
        median: median(times),
    }
}

/// The memory of a controller, in KiB, after its allocator has returned what it had kept.
fn settled(controller: &Controller) -> f64 {
    std::thread::sleep(SETTLING);
    controller.memory()
}

/// A network, with the memory of each connected router beside that of idle connections of REST.
fn connected(runtime: &Runtime, directory: &Path, routers: usize, is_asked: bool) -> Network {
    Network::new(runtime, directory, routers, |controller, connect| {
        if !is_asked {
            return connect();
        }
        let before = settled(controller);
        let idle: Vec<_> = (0..routers).map(|_| controller.open()).collect();
        let with_idle = settled(controller);
        connect();
        let with_routers = settled(controller);
        drop(idle);
        let [floor, each] =
            [with_idle - before, with_routers - with_idle].map(|memory| memory / routers as f64);
        row(
            "memory of a connected router, KiB, an idle connection as floor",
            floor,
            each,
            None,
        );
    })
}

/// The time until the circuits over a lost link have other paths.
fn paths(runtime: &Runtime, network: &Network, circuits: usize) {
    let each = (circuits / network.routers.len()).max(1);
    let times = runtime.block_on(async {
        let mut times = Vec::new();
        // Far from one another, so that no circuit is rerouted twice.
        for number in (0..network.routers.len()).step_by(5).take(10) {
            for _ in 0..each {
                network.dial(number).await;
            }
            let router = &network.routers[number];
            let (start, mut last) = (Instant::now(), None);
            router.lose(&format!("link-{number}-1")).await;
            let mut told = router.told.lock().await;
            for _ in 0..each {
                match timeout(PATIENCE, told.recv())
                    .await
                    .expect("another path")
                    .expect("a connection")
                {
                    Told::Rerouted(at) => last = Some(at),
                    Told::SessionsRemoved(_) => panic!("no session was removed"),
                }
            }
            times.push(last.map_or(0.0, |last| (last - start).as_secs_f64() * 1e3));
        }
        times
    });
    row(
        &format!("{each} circuits of a lost link have other paths, ms, goal as floor"),
        50.0,
        median(times),
        Some(1.0),
    );
}

/// The time from a change until the last router has heard of it, beside changes that concern no
/// session.
fn changes(runtime: &Runtime, network: &Network) {
    let unrelated: Vec<_> = (0..CHANGES)
        .map(|number| {
            let policy =
                json!({ "name": format!("unrelated {number}"), "type": "Dial", "semantic": "AnyOf", "identityRoles": ["#nobody"] });
            network.controller.create("/service-policies", &policy)
        })
        .collect();
    let floor = median(
        unrelated
            .iter()
            .map(|policy| millis(|| network.delete(policy)))
            .collect(),
    );
    let times = (0..CHANGES.min(network.routers.len()))
        .map(|number| {
            // Reports of other parts.
            runtime.block_on(async {
                for router in &network.routers {
                    let mut told = router.told.lock().await;
                    while told.try_recv().is_ok() {}
                }
            });
            let start = Instant::now();
            network.forbid(number);
            let last = runtime.block_on(async {
                let mut last = start;
                for router in &network.routers {
                    let mut told = router.told.lock().await;
                    loop {
                        match timeout(PATIENCE, told.recv())
                            .await
                            .expect("a removed session")
                            .expect("a connection")
                        {
                            Told::SessionsRemoved(at) => break last = last.max(at),
                            Told::Rerouted(_) => {}
                        }
                    }
                }
                last
            });
            (last - start).as_secs_f64() * 1e3
        })
        .collect();
    let what = format!(
        "the last of {} routers hears of a change, ms, a change as floor",
        network.routers.len()
    );
    row(&what, floor, median(times), None);
}

fn millis(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e3
}
