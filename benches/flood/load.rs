//! Work that many clients do at the same time, and its outcome.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// The outcome of one piece of work.
pub enum Outcome {
    Useful,
    /// Rejected; to be repeated after so many seconds.
    Refused(u64),
    /// Part of an attack; not counted.
    Nothing,
}

/// The outcome of all work.
#[derive(Default, Clone)]
pub struct Load {
    pub each_second: f64,
    pub refused_each_second: f64,
    /// The times of the successful pieces, ascending.
    pub times: Vec<Duration>,
}

impl Load {
    /// Combines the loads of several threads: times of successful answers, and numbers of
    /// rejections.
    pub fn of(parts: Vec<(Vec<Duration>, usize)>, time: Duration) -> Self {
        let seconds = time.as_secs_f64();
        let refused: usize = parts.iter().map(|(_, refused)| refused).sum();
        let mut times: Vec<Duration> = parts.into_iter().flat_map(|(times, _)| times).collect();
        times.sort_unstable();
        Self {
            each_second: times.len() as f64 / seconds,
            refused_each_second: refused as f64 / seconds,
            times,
        }
    }

    /// The quantile of the times at `part`.
    pub fn part(&self, part: f64) -> Duration {
        let at = (self.times.len() as f64 * part) as usize;
        self.times
            .get(at.min(self.times.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }

    pub fn p99(&self) -> f64 {
        self.part(0.99).as_secs_f64() * 1e3
    }
}

/// A worker; each call does one piece of work.
pub type Worker<'w> = Box<dyn FnMut() -> Outcome + Send + 'w>;

/// All workers work in a closed loop for a while. A rejected worker waits as long as it is told.
pub fn load(time: Duration, workers: Vec<Worker<'_>>) -> Load {
    let start = Instant::now();
    let parts: Vec<(Vec<Duration>, usize)> = thread::scope(|scope| {
        let works = workers.into_iter().map(|mut worker| {
            let work = move || {
                let (mut times, mut refused) = (Vec::new(), 0);
                while start.elapsed() < time {
                    let begun = Instant::now();
                    match worker() {
                        Outcome::Useful => times.push(begun.elapsed()),
                        Outcome::Refused(seconds) => {
                            refused += 1;
                            thread::sleep(
                                Duration::from_secs(seconds)
                                    .min(time.saturating_sub(start.elapsed())),
                            );
                        }
                        Outcome::Nothing => {}
                    }
                }
                (times, refused)
            };
            scope.spawn(work)
        });
        let started: Vec<_> = works.collect();
        started
            .into_iter()
            .map(|work| work.join().expect("a worker"))
            .collect()
    });
    Load::of(parts, start.elapsed())
}

/// Does something while attackers are called again and again.
pub fn during<T>(attackers: Vec<Worker<'_>>, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for mut attacker in attackers {
            let over = &over;
            scope.spawn(move || {
                while !over.load(Relaxed) {
                    attacker();
                }
            });
        }
        let done = work();
        over.store(true, Relaxed);
        done
    })
}
