//! Requests in numbers: what they cost the server, and how long they take.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use super::{calm, client::Client, server::Server};

const ROUND: Duration = Duration::from_millis(400);
/// Behind a round: what it has left to do is not for the floor of the next one.
const REST: Duration = Duration::from_millis(50);

/// What something takes. Times are in microseconds.
#[derive(Clone, Copy)]
pub struct Rate {
    pub each_second: f64,
    /// CPU of the server for each.
    pub cpu: f64,
    pub median: f64,
    pub p99: f64,
}

/// Something that is measured in rounds.
pub struct Load<'l>(Box<dyn FnMut() -> Rate + 'l>);

/// Something measured by turns with its floor.
pub struct Pair {
    pub rate: Rate,
    pub floor: Rate,
    /// CPU of one for the CPU of the other in the same round, in the median.
    pub times: f64,
}

impl Load<'_> {
    /// The medians.
    pub fn measure(mut self) -> Rate {
        middle(&calm::rounds(&mut self.0))
    }

    /// The medians of rounds each of which measures both, so that what disturbs one disturbs the other.
    pub fn beside(mut self, mut floor: Load<'_>) -> Pair {
        let both = || {
            let (floor, rate) = (floor.0(), self.0());
            thread::sleep(REST);
            (rate, floor)
        };
        let (rates, floors): (Vec<Rate>, Vec<Rate>) = calm::rounds(both).into_iter().unzip();
        let times = rates.iter().zip(&floors).map(|(rate, floor)| rate.cpu / floor.cpu);
        Pair { rate: middle(&rates), floor: middle(&floors), times: part(&mut times.collect::<Vec<_>>(), 0.5) }
    }
}

/// Every client works without a pause; `work` is told how often that was done before.
pub fn steady<'l>(server: &'l Server, mut clients: Vec<Client>, work: impl Fn(&mut Client, usize) + Sync + 'l) -> Load<'l> {
    let count = AtomicUsize::new(0);
    load(server, || (), move |()| together(&mut clients, usize::MAX, |client, _| work(client, count.fetch_add(1, Relaxed))))
}

/// The same with other clients in each round, each of which does it so often at most; `work` is told how often its client did it before.
pub fn of_new<'l, C: Send>(
    server: &'l Server,
    most: usize,
    new: impl FnMut() -> Vec<C> + 'l,
    work: impl Fn(&mut C, usize) + Sync + 'l,
) -> Load<'l> {
    load(server, new, move |mut clients| together(&mut clients, most, &work))
}

fn together<C: Send>(clients: &mut [C], most: usize, work: impl Fn(&mut C, usize) + Sync) -> Vec<f64> {
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
        let threads: Vec<_> = clients.iter_mut().map(|client| scope.spawn(|| until_it_ends(client))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a client")).collect()
    })
}

/// Some clients work so often a second, all together, however long the server takes; `work` is told how often that was done before.
pub fn paced<'l>(
    server: &'l Server,
    mut clients: Vec<Client>,
    each_second: f64,
    work: impl Fn(&mut Client, usize) + Sync + 'l,
) -> Load<'l> {
    let (count, each) = (AtomicUsize::new(0), each_second / clients.len() as f64);
    let one = move |n: usize, client: &mut Client| {
        // By turns, not all at the same moments.
        thread::sleep(Duration::from_secs_f64(n as f64 / each_second));
        paced_for(ROUND, each, |_| work(client, count.fetch_add(1, Relaxed)))
    };
    let round = move |()| {
        thread::scope(|scope| {
            let one = &one;
            let threads: Vec<_> = clients.iter_mut().enumerate().map(|(n, client)| scope.spawn(move || one(n, client))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("a client")).collect()
        })
    };
    load(server, || (), round)
}

/// The latencies of something done so often a second; `work` is told how often it was done before. What is late because of the one
/// before counts from when it was due.
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

/// Something done some times, one after the other, with what is made ready for each round.
pub fn repeated<'l, T>(
    server: &'l Server,
    times: usize,
    prepare: impl FnMut() -> T + 'l,
    mut work: impl FnMut(&mut T, usize) + 'l,
) -> Load<'l> {
    let mut count = 0..;
    load(server, prepare, move |mut ready| (0..times).map(|_| timed(|| work(&mut ready, count.next().unwrap_or_default()))).collect())
}

/// Rounds of work that gives its latencies; one more comes first, and is not measured.
fn load<'l, T>(server: &'l Server, mut prepare: impl FnMut() -> T + 'l, mut round: impl FnMut(T) -> Vec<f64> + 'l) -> Load<'l> {
    round(prepare());
    server.settle();
    Load(Box::new(move || {
        let ready = prepare();
        let (before, start) = (server.spent(), Instant::now());
        let mut latencies = round(ready);
        let (elapsed, done) = (start.elapsed().as_secs_f64(), latencies.len() as f64);
        // What was begun with the last requests, such as the end of a connection, ends too.
        thread::sleep(Duration::from_millis(5));
        let cpu = server.spent().since(&before) / done * 1e6;
        Rate { each_second: done / elapsed, cpu, median: part(&mut latencies, 0.5), p99: part(&mut latencies, 0.99) }
    }))
}

fn middle(rates: &[Rate]) -> Rate {
    let of = |of: fn(&Rate) -> f64| part(&mut rates.iter().map(of).collect::<Vec<_>>(), 0.5);
    Rate { each_second: of(|r| r.each_second), cpu: of(|r| r.cpu), median: of(|r| r.median), p99: of(|r| r.p99) }
}

/// The value that such a part lie below, in the median of some rounds.
pub fn part_of_rounds(rounds: &[Vec<f64>], at: f64) -> f64 {
    part(&mut rounds.iter().map(|round| part(&mut round.clone(), at)).collect::<Vec<_>>(), 0.5)
}

/// The value that such a part of all lie below.
pub fn part(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * part) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Microseconds that something takes.
pub fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e6
}
