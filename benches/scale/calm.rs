//! Rounds that count: those that other machines, which share the processor, disturbed least.

use std::{
    fs,
    hint::black_box,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::load::{part, timed};

/// Rounds that count for a figure.
pub const ROUNDS: usize = 5;
/// Rounds that are run at most until so many were calm; then the calmest count.
const MOST: usize = 2 * ROUNDS;
/// How long a round waits at most for the processor to be calm.
const PATIENCE: Duration = Duration::from_millis(500);
/// A round is calm if the same work takes no longer than this, against its best in the run so far.
const CALM: f64 = 1.15;

struct Seen {
    /// Microseconds of the same work at its best.
    best: f64,
    /// What it took in the median around the rounds that counted, of each measurement since this was asked for.
    counted: Vec<f64>,
}

static SEEN: Mutex<Seen> = Mutex::new(Seen { best: f64::INFINITY, counted: Vec::new() });

/// Five rounds: the first that were calm, or of ten the calmest. What a round measures does not decide whether it counts, only how
/// long work that is always the same takes right before and after it, and how much of the processor others had meanwhile.
pub fn rounds<T>(mut round: impl FnMut() -> T) -> Vec<T> {
    let mut all = Vec::new();
    while all.len() < MOST && all.iter().filter(|(took, _)| is_calm(*took)).count() < ROUNDS {
        let before = calmed();
        let (stolen, start) = (stolen(), Instant::now());
        let measured = round();
        let cores = thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        let taken = (self::stolen() - stolen) / start.elapsed().as_secs_f64() / cores;
        all.push((same_work().max(before) / (1.0 - taken).max(0.1), measured));
    }
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    all.truncate(ROUNDS);
    let took = part(&mut all.iter().map(|(took, _)| *took).collect::<Vec<_>>(), 0.5);
    SEEN.lock().expect("no panic").counted.push(took);
    all.into_iter().map(|(_, measured)| measured).collect()
}

/// The median of such rounds.
pub fn median(round: impl FnMut() -> f64) -> f64 {
    part(&mut rounds(round), 0.5)
}

/// Microseconds that the same work took around the rounds that counted, in the most restless measurement since this was asked before.
pub fn lately() -> Option<f64> {
    std::mem::take(&mut SEEN.lock().expect("no panic").counted).into_iter().reduce(f64::max)
}

/// How many times its best in the run so far this is for the same work.
pub fn times(took: f64) -> f64 {
    took / SEEN.lock().expect("no panic").best
}

fn is_calm(took: f64) -> bool {
    times(took) <= CALM
}

/// Waits for a while until the processor is calm, and says what the same work took last.
fn calmed() -> f64 {
    let start = Instant::now();
    loop {
        let took = same_work();
        if is_calm(took) || start.elapsed() > PATIENCE {
            return took;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Microseconds that work which is always the same takes now, on all cores at once, the slowest of which counts.
fn same_work() -> f64 {
    const TIMES: usize = 300;
    let record =
        json!({ "id": "Vbeaaaaaaaaa", "name": "identity-4711", "roleAttributes": ["role0", "role3"], "isAdmin": false }).to_string();
    let work = || timed(|| (0..TIMES).for_each(|_| drop(black_box(serde_json::from_str::<Value>(&record).map(|read| read.to_string())))));
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let slowest = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("work")).fold(0.0, f64::max)
    });
    let mut seen = SEEN.lock().expect("no panic");
    seen.best = seen.best.min(slowest);
    slowest
}

/// Seconds that other machines had our processors while we wanted them.
fn stolen() -> f64 {
    const TICK: f64 = 0.01;
    let accounts = fs::read_to_string("/proc/stat").expect("the accounts of the processor");
    let ticks = accounts.split_whitespace().nth(8).and_then(|ticks| ticks.parse::<f64>().ok());
    ticks.expect("a number") * TICK
}
