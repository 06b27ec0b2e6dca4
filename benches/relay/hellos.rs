//! Log-ins beside many clients that open channels.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use super::{
    controller::BY_CERTIFICATE, parts::channels, percentile, row, stage::Stage, wire::Wire,
};

/// Clients that open channels one after the other, and log-ins that are made meanwhile.
const STAMPEDE: usize = 64;

const LOGINS: usize = 100;

/// Log-ins over REST beside 10,000 idle channels while many clients open channels, each on a
/// connection of its own.
pub fn hellos(stage: &Stage) {
    let (_, manner) = stage.controller.enrolled("logins");
    let log_ins = || {
        let mut times = Vec::with_capacity(LOGINS);
        for _ in 0..LOGINS {
            let start = Instant::now();
            assert_eq!(
                Wire::open(stage.controller.at, &manner)
                    .unwrap()
                    .ask("POST", BY_CERTIFICATE, "", "")
                    .unwrap()
                    .status,
                200
            );
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times
    };
    let quiet = log_ins();
    let (idle, stop) = (
        stage.runtime.block_on(channels(stage)),
        AtomicBool::new(false),
    );
    let (busy, opened, seconds) = std::thread::scope(|scope| {
        let start = Instant::now();
        let openers: Vec<_> = (0..STAMPEDE)
            .map(|_| {
                scope.spawn(|| {
                    let mut opened = 0;
                    while !stop.load(Ordering::Relaxed) {
                        drop(stage.runtime.block_on(stage.channel(&stage.dialer)));
                        opened += 1;
                    }
                    opened
                })
            })
            .collect();
        let busy = log_ins();
        stop.store(true, Ordering::Relaxed);
        let opened: usize = openers
            .into_iter()
            .map(|opener| opener.join().unwrap())
            .sum();
        (busy, opened, start.elapsed().as_secs_f64())
    });
    drop(idle);
    for share in [0.5, 0.99] {
        let what = format!(
            "a log-in beside a stampede of hellos, p{:.0} ms",
            share * 100.0
        );
        row(
            &what,
            percentile(quiet.clone(), share),
            percentile(busy.clone(), share),
            None,
        );
    }
    let (alone, beside) = (1e3 / percentile(quiet, 0.5), LOGINS as f64 / seconds);
    row(
        "log-ins per second beside a stampede of hellos",
        alone,
        beside,
        None,
    );
    row(
        "hellos per second beside log-ins",
        alone,
        opened as f64 / seconds,
        None,
    );
}
