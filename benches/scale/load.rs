//! Requests in numbers: what they cost the server, and how long they take.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use super::{calm, client::Client, server::Server};

const ROUND: Duration = Duration::from_millis(400);

/// The median of some rounds of the same. Times are in microseconds.
#[derive(Clone, Copy)]
pub struct Rate {
    pub each_second: f64,
    /// CPU of the server for each.
    pub cpu: f64,
    pub median: f64,
    pub p99: f64,
}

/// Every client works without a pause; `work` is told how often that was done before.
pub fn rate(server: &Server, clients: &mut [Client], work: impl Fn(&mut Client, usize) + Sync) -> Rate {
    let count = AtomicUsize::new(0);
    rounds(server, || (), |()| together(clients, usize::MAX, |client, _| work(client, count.fetch_add(1, Relaxed))))
}

/// The same with other clients in each round; `work` is told how often its client did it before.
pub fn rate_of_new<C: Send>(server: &Server, new: impl FnMut() -> Vec<C>, work: impl Fn(&mut C, usize) + Sync) -> Rate {
    rounds(server, new, |mut clients| together(&mut clients, usize::MAX, &work))
}

/// The same, of work that a client can do only so often.
pub fn rate_of_few<C: Send>(server: &Server, most: usize, new: impl FnMut() -> Vec<C>, work: impl Fn(&mut C, usize) + Sync) -> Rate {
    rounds(server, new, |mut clients| together(&mut clients, most, &work))
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
pub fn paced(server: &Server, clients: &mut [Client], each_second: f64, work: impl Fn(&mut Client, usize) + Sync) -> Rate {
    let (count, each) = (AtomicUsize::new(0), each_second / clients.len() as f64);
    let one = |n: usize, client: &mut Client| {
        // By turns, not all at the same moments.
        thread::sleep(Duration::from_secs_f64(n as f64 / each_second));
        paced_for(ROUND, each, |_| work(client, count.fetch_add(1, Relaxed)))
    };
    let round = |()| {
        thread::scope(|scope| {
            let threads: Vec<_> = clients.iter_mut().enumerate().map(|(n, client)| scope.spawn(move || one(n, client))).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("a client")).collect()
        })
    };
    rounds(server, || (), round)
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
pub fn repeated<T>(server: &Server, times: usize, prepare: impl FnMut() -> T, mut work: impl FnMut(&mut T, usize)) -> Rate {
    let mut count = 0..;
    rounds(server, prepare, |mut ready| (0..times).map(|_| timed(|| work(&mut ready, count.next().unwrap_or_default()))).collect())
}

fn rounds<T>(server: &Server, mut prepare: impl FnMut() -> T, mut round: impl FnMut(T) -> Vec<f64>) -> Rate {
    round(prepare());
    server.settle();
    let measured = calm::rounds(|| {
        let ready = prepare();
        let (before, start) = (server.spent(), Instant::now());
        let mut latencies = round(ready);
        let (elapsed, done) = (start.elapsed().as_secs_f64(), latencies.len() as f64);
        // What was begun with the last requests, such as the end of a connection, ends too.
        thread::sleep(Duration::from_millis(5));
        let cpu = server.spent().since(&before) / done * 1e6;
        Rate { each_second: done / elapsed, cpu, median: part(&mut latencies, 0.5), p99: part(&mut latencies, 0.99) }
    });
    let middle = |of: fn(&Rate) -> f64| part(&mut measured.iter().map(of).collect::<Vec<_>>(), 0.5);
    Rate { each_second: middle(|r| r.each_second), cpu: middle(|r| r.cpu), median: middle(|r| r.median), p99: middle(|r| r.p99) }
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
