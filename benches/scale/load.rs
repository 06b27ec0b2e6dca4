//! Repeated requests: their cost for the server and their latencies.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use super::{calm, client::Client, server::Server};

const ROUND: Duration = Duration::from_millis(400);
/// The pause after a round, so that its remaining work does not affect the floor of the next one.
const REST: Duration = Duration::from_millis(50);

/// The result of a measurement. Times are in microseconds.
#[derive(Clone, Copy)]
pub struct Rate {
    pub each_second: f64,
    /// The server's CPU time per request.
    pub cpu: f64,
    pub median: f64,
    pub p99: f64,
}

/// Something that is measured in rounds.
pub struct Load<'l>(Box<dyn FnMut() -> Rate + 'l>);

/// A measurement in alternation with its floor.
pub struct Pair {
    pub rate: Rate,
    pub floor: Rate,
    /// The ratio of the CPU times in the same round, in the median.
    pub times: f64,
}

impl Load<'_> {
    /// The medians.
    pub fn measure(mut self) -> Rate {
        middle(&calm::rounds(&mut self.0))
    }

    /// The medians of rounds that each measure both, so that a disturbance affects both.
    pub fn beside(self, floor: Load<'_>) -> Pair {
        self.some_beside(calm::ROUNDS, floor)
    }

    /// The same of so many rounds.
    pub fn some_beside(mut self, rounds: usize, mut floor: Load<'_>) -> Pair {
        let both = || {
            let (floor, rate) = (floor.0(), self.0());
            thread::sleep(REST);
            (rate, floor)
        };
        let (rates, floors): (Vec<Rate>, Vec<Rate>) =
            calm::some_rounds(rounds, both).into_iter().unzip();
        let times = rates
            .iter()
            .zip(&floors)
            .map(|(rate, floor)| rate.cpu / floor.cpu);
        Pair {
            rate: middle(&rates),
            floor: middle(&floors),
            times: part(&mut times.collect::<Vec<_>>(), 0.5),
        }
    }
}

/// Every client works without a pause; `work` gets the number of earlier calls.
pub fn steady<'l>(
    server: &'l Server,
    mut clients: Vec<Client>,
    work: impl Fn(&mut Client, usize) + Sync + 'l,
) -> Load<'l> {
    let count = AtomicUsize::new(0);
    load(
        server,
        || (),
        move |()| {
            together(&mut clients, usize::MAX, |client, _| {
                work(client, count.fetch_add(1, Relaxed))
            })
        },
    )
}

/// The same with new clients in each round, each of which works so often at most; `work` gets the
/// number of earlier calls of its client.
pub fn of_new<'l, C: Send>(
    server: &'l Server,
    most: usize,
    new: impl FnMut() -> Vec<C> + 'l,
    work: impl Fn(&mut C, usize) + Sync + 'l,
) -> Load<'l> {
    load(server, new, move |mut clients| {
        together(&mut clients, most, &work)
    })
}

fn together<C: Send>(
    clients: &mut [C],
    most: usize,
    work: impl Fn(&mut C, usize) + Sync,
) -> Vec<f64> {
    let start = Instant::now();
    let until_it_ends = |client: &mut C| {
        let mut latencies = Vec::new();
        while start.elapsed() < ROUND && latencies.len() < most {
            let before = latencies.len();
            latencies.push(timed(|| work(client, before)));
        }
        latencies
    };
    thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter_mut()
            .map(|client| scope.spawn(|| until_it_ends(client)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("a client"))
            .collect()
    })
}

/// Several clients together work so often per second, however long the server takes; `work` gets
/// the number of earlier calls.
pub fn paced<'l>(
    server: &'l Server,
    mut clients: Vec<Client>,
    each_second: f64,
    work: impl Fn(&mut Client, usize) + Sync + 'l,
) -> Load<'l> {
    let (count, each) = (AtomicUsize::new(0), each_second / clients.len() as f64);
    let one = move |n: usize, client: &mut Client| {
        // The clients start at different times.
        thread::sleep(Duration::from_secs_f64(n as f64 / each_second));
        paced_for(ROUND, each, |_| work(client, count.fetch_add(1, Relaxed)))
    };
    let round = move |()| {
        thread::scope(|scope| {
            let one = &one;
            let threads: Vec<_> = clients
                .iter_mut()
                .enumerate()
                .map(|(n, client)| scope.spawn(move || one(n, client)))
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().expect("a client"))
                .collect()
        })
    };
    load(server, || (), round)
}

/// The latencies of work that is due so often per second; `work` gets the number of earlier calls.
/// A latency counts from the due time, even if the previous call was late.
pub fn paced_for(time: Duration, each_second: f64, mut work: impl FnMut(usize)) -> Vec<f64> {
    let start = Instant::now();
    let mut latencies = Vec::new();
    let pause = Duration::from_secs_f64(1.0 / each_second);
    let mut due = start;
    while due.duration_since(start) < time {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        work(latencies.len());
        latencies.push(due.elapsed().as_secs_f64() * 1e6);
        due += pause;
    }
    latencies
}

/// Work that is done some times, one after the other, with a preparation for each round.
pub fn repeated<'l, T>(
    server: &'l Server,
    times: usize,
    prepare: impl FnMut() -> T + 'l,
    mut work: impl FnMut(&mut T, usize) + 'l,
) -> Load<'l> {
    let mut count = 0..;
    load(server, prepare, move |mut ready| {
        (0..times)
            .map(|_| timed(|| work(&mut ready, count.next().unwrap_or_default())))
            .collect()
    })
}

/// Rounds of work that returns its latencies; a first round is not measured.
fn load<'l, T>(
    server: &'l Server,
    mut prepare: impl FnMut() -> T + 'l,
    mut round: impl FnMut(T) -> Vec<f64> + 'l,
) -> Load<'l> {
    round(prepare());
    server.settle();
    Load(Box::new(move || {
        let ready = prepare();
        let (before, start) = (server.spent(), Instant::now());
        let mut latencies = round(ready);
        let (elapsed, done) = (start.elapsed().as_secs_f64(), latencies.len() as f64);
        // Work started by the last requests, such as closing a connection, has to end too.
        thread::sleep(Duration::from_millis(5));
        let cpu = server.spent().since(&before) / done * 1e6;
        Rate {
            each_second: done / elapsed,
            cpu,
            median: part(&mut latencies, 0.5),
            p99: part(&mut latencies, 0.99),
        }
    }))
}

fn middle(rates: &[Rate]) -> Rate {
    let of = |of: fn(&Rate) -> f64| part(&mut rates.iter().map(of).collect::<Vec<_>>(), 0.5);
    Rate {
        each_second: of(|r| r.each_second),
        cpu: of(|r| r.cpu),
        median: of(|r| r.median),
        p99: of(|r| r.p99),
    }
}

/// The quantile `at` of each round, in the median.
pub fn part_of_rounds(rounds: &[Vec<f64>], at: f64) -> f64 {
    part(
        &mut rounds
            .iter()
            .map(|round| part(&mut round.clone(), at))
            .collect::<Vec<_>>(),
        0.5,
    )
}

/// The quantile `part` of all values.
pub fn part(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * part) as usize;
    values
        .get(at.min(values.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

/// The duration of some work in microseconds.
pub fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e6
}
