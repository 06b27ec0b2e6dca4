//! All routers connect at once after a restart of the controller, while an identity logs in again
//! and again.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tokio::{runtime::Runtime, time::sleep};

use super::{
    controller::{BY_CERTIFICATE, Controller},
    router::{Enrolled, Router},
    row, settled,
    spent::Spent,
    wire::{Manner, Wire},
};

/// Threads that enroll routers.
const ENROLLING: usize = 8;
/// Log-ins on the idle controller.
const LOGINS: usize = 300;
/// How long a router that was turned away waits. Go routers do the same.
const PAUSE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(300);

fn started(directory: &Path) -> Controller {
    Controller::start(directory, &[("OVERKEEP_ROUTER_ENABLED", "false")])
}

/// Enrolls so many routers.
fn enrolled(controller: &Controller, count: usize) -> Vec<Enrolled> {
    let next = AtomicUsize::new(0);
    let enroll = || {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed))
            .take_while(|number| *number < count);
        numbers
            .map(|number| Enrolled::new(controller, &format!("router-{number}")))
            .collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let parts: Vec<_> = (0..ENROLLING).map(|_| scope.spawn(enroll)).collect();
        parts
            .into_iter()
            .flat_map(|part| part.join().expect("routers"))
            .collect()
    })
}

/// Log-ins, one after the other, until `is_done` of their number. Returns the time of each in
/// milliseconds, ascending.
fn log_ins(controller: &Controller, manner: &Manner, is_done: impl Fn(usize) -> bool) -> Vec<f64> {
    let mut times = Vec::new();
    while !is_done(times.len()) {
        let start = Instant::now();
        let answer = Wire::open(controller.at, manner)
            .and_then(|mut wire| wire.ask("POST", BY_CERTIFICATE, "", ""));
        assert_eq!(answer.expect("an answer").status, 200);
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_unstable_by(f64::total_cmp);
    times
}

/// Connects a router that was connected before. Returns it with the number of its attempts.
async fn come_back(controller: &Controller, router: &Enrolled) -> (Router, usize) {
    for tries in 1.. {
        match router.try_connect(controller.at, Some("1")).await {
            Ok(router) => return (router, tries),
            Err(_) => sleep(PAUSE).await,
        }
    }
    unreachable!("it does not give up")
}

/// Waits until every router was told of all others.
async fn told_of_all(routers: &[Router]) {
    let start = Instant::now();
    while routers
        .iter()
        .any(|router| router.peers.load(Ordering::Relaxed) + 1 < routers.len())
    {
        assert!(
            start.elapsed() < PATIENCE,
            "a router was not told of all others"
        );
        sleep(Duration::from_millis(10)).await;
    }
}

pub fn reconnect(runtime: &Runtime, directory: &Path, count: usize) {
    std::fs::create_dir_all(directory).expect("a directory");
    let first = started(directory);
    let (_, manner) = first.enrolled("user");
    let routers = enrolled(&first, count);
    drop(first);
    let controller = started(directory);
    let quiet = log_ins(&controller, &manner, |count| count == LOGINS);
    let one = runtime.block_on(async {
        let start = Instant::now();
        drop(come_back(&controller, &routers[0]).await);
        start.elapsed().as_secs_f64()
    });
    let (memory, before, is_over) = (
        settled(&controller),
        Spent::of(controller.id()),
        AtomicBool::new(false),
    );
    let (connected, busy, [in_step, told]) = thread::scope(|scope| {
        let beside =
            scope.spawn(|| log_ins(&controller, &manner, |_| is_over.load(Ordering::Relaxed)));
        let start = Instant::now();
        let (connected, times) = runtime.block_on(async {
            let (connected, tries): (Vec<_>, Vec<_>) =
                join_all(routers.iter().map(|router| come_back(&controller, router)))
                    .await
                    .into_iter()
                    .unzip();
            let in_step = start.elapsed().as_secs_f64();
            told_of_all(&connected).await;
            row(
                "connections that they needed",
                count as f64,
                tries.iter().sum::<usize>() as f64,
                None,
            );
            (connected, [in_step, start.elapsed().as_secs_f64()])
        });
        is_over.store(true, Ordering::Relaxed);
        (connected, beside.join().expect("log-ins"), times)
    });
    let cpu = Spent::of(controller.id()).since(&before);
    row(
        &format!("{count} routers at once have the full state, s; one after the other as floor"),
        one * count as f64,
        in_step,
        None,
    );
    row("they were told of all others, s", in_step, told, None);
    row(
        "CPU of the controller for each, ms, log-ins included",
        0.0,
        cpu * 1e3 / count as f64,
        None,
    );
    for (part, name) in [(0.5, "median"), (0.99, "p99")] {
        let at = |times: &[f64]| times[((times.len() as f64 * part) as usize).min(times.len() - 1)];
        row(
            &format!("a log-in meanwhile, {name} ms, quiet as floor"),
            at(&quiet),
            at(&busy),
            None,
        );
    }
    row(
        "log-ins per second meanwhile, quiet as floor",
        1e3 / quiet[LOGINS / 2],
        busy.len() as f64 / told,
        None,
    );
    let each = (settled(&controller) - memory) / count as f64;
    row("memory of each, KiB", 0.0, each, None);
    drop(connected);
}
