//! Selection of rounds: those with the least load from other machines that share the processor.

use std::{
    fs,
    hint::black_box,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::load::{part, timed};

/// The number of rounds that count for a figure.
pub const ROUNDS: usize = 5;
/// The longest wait for a calm processor before a round.
const PATIENCE: Duration = Duration::from_millis(500);
/// A round is calm if a fixed work takes no longer than this, relative to its best time in the run
/// so far.
const CALM: f64 = 1.15;

struct MachineState {
    /// The best time of the fixed work, in microseconds.
    best: f64,
    /// The median time of the fixed work around the rounds that counted, for each measurement since
    /// this was last read.
    counted: Vec<f64>,
}

static STATE: Mutex<MachineState> = Mutex::new(MachineState {
    best: f64::INFINITY,
    counted: Vec::new(),
});

/// Five rounds: the first calm ones, or the calmest of ten. The selection does not depend on what a
/// round measures, only on how long a fixed work takes right before and after it, and on the
/// processor time that others took meanwhile.
pub fn rounds<T>(round: impl FnMut() -> T) -> Vec<T> {
    some_rounds(ROUNDS, round)
}

/// So many rounds: the first calm ones, or the calmest of twice as many.
pub fn some_rounds<T>(count: usize, mut round: impl FnMut() -> T) -> Vec<T> {
    let mut all = Vec::new();
    while all.len() < 2 * count && all.iter().filter(|(took, _)| is_calm(*took)).count() < count {
        let before = calmed();
        let (stolen, start) = (stolen(), Instant::now());
        let measured = round();
        let cores = thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        let taken = (self::stolen() - stolen) / start.elapsed().as_secs_f64() / cores;
        all.push((same_work().max(before) / (1.0 - taken).max(0.1), measured));
    }
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    all.truncate(count);
    let took = part(
        &mut all.iter().map(|(took, _)| *took).collect::<Vec<_>>(),
        0.5,
    );
    STATE.lock().expect("no panic").counted.push(took);
    all.into_iter().map(|(_, measured)| measured).collect()
}

/// The median of such rounds.
pub fn median(round: impl FnMut() -> f64) -> f64 {
    part(&mut rounds(round), 0.5)
}

/// The time of the fixed work in microseconds around the rounds that counted, in the least calm
/// measurement since this was last called.
pub fn lately() -> Option<f64> {
    std::mem::take(&mut STATE.lock().expect("no panic").counted)
        .into_iter()
        .reduce(f64::max)
}

/// The ratio of a time of the fixed work to its best in the run so far.
pub fn times(took: f64) -> f64 {
    took / STATE.lock().expect("no panic").best
}

fn is_calm(took: f64) -> bool {
    times(took) <= CALM
}

/// Waits until the processor is calm, at most for a while. Returns the last time of the fixed work.
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

/// The time of a fixed work now, in microseconds, on all cores at once; the slowest core counts.
fn same_work() -> f64 {
    const TIMES: usize = 300;
    let record =
        json!({ "id": "Vbeaaaaaaaaa", "name": "identity-4711", "roleAttributes": ["role0", "role3"], "isAdmin": false }).to_string();
    let work = || {
        timed(|| {
            (0..TIMES).for_each(|_| {
                drop(black_box(
                    serde_json::from_str::<Value>(&record).map(|read| read.to_string()),
                ))
            })
        })
    };
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let slowest = thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("work"))
            .fold(0.0, f64::max)
    });
    let mut seen = STATE.lock().expect("no panic");
    seen.best = seen.best.min(slowest);
    slowest
}

/// The seconds that other machines had our processors while we needed them (steal time).
fn stolen() -> f64 {
    const TICK: f64 = 0.01;
    let accounts = fs::read_to_string("/proc/stat").expect("the accounts of the processor");
    let ticks = accounts
        .split_whitespace()
        .nth(8)
        .and_then(|ticks| ticks.parse::<f64>().ok());
    ticks.expect("a number") * TICK
}
