//! The scrub: a slow check of the whole file in the background, which finds damage before a request
//! does: first the blocks of the disk, then every row of every table, then the keys.
//!
//! It works in small steps with long pauses, so that its share of the processor is limited, however
//! large the file is. Findings are logged once and are also part of a requested check. Invariant:
//! the scrub changes nothing and delays no request; it pauses while a requested check or repair
//! runs.

use std::{
    collections::BTreeSet,
    io,
    time::{Duration, Instant},
};

use model::{
    clock::{Clock, Timestamp},
    config::Integrity,
    error::Result,
};
use store::{Position, Progress};

use super::{Background, Maintenance, file_check};

/// The number of blocks of the file (`BLOCKS`) or of rows (`ROWS`) in one step.
const BLOCKS: u64 = 64;
const ROWS: usize = 64;
/// The pause after a step, as a multiple of its duration: the scrub uses half a percent of a core.
const PAUSE_FACTOR: u32 = 200;
/// The shortest pause after a step (`MIN_PAUSE`), and the interval of the check whether a round is
/// due (`TICK`).
const MIN_PAUSE: Duration = Duration::from_millis(20);
const TICK: Duration = Duration::from_secs(20);
/// The greatest number of findings logged per round.
const MAX_LOGGED: usize = 100;

/// Repeated rounds over everything.
pub struct Scrub {
    maintenance: Maintenance,
    clock: Clock,
    interval: Duration,
    /// By the steady clock.
    begun: Option<Timestamp>,
    stage: Stage,
    /// The findings of this round, and those of the previous one.
    found: BTreeSet<String>,
    known: BTreeSet<String>,
}

/// The position in the round.
enum Stage {
    Over,
    Blocks(u64),
    Rows(Position),
    Keys,
}

impl Scrub {
    /// A scrub with the configured interval; the first round starts at once.
    pub fn of(settings: &Integrity, maintenance: Maintenance, clock: Clock) -> Self {
        let (found, known) = (BTreeSet::new(), BTreeSet::new());
        Self {
            maintenance,
            clock,
            interval: settings.scrub_interval.duration(),
            begun: None,
            stage: Stage::Over,
            found,
            known,
        }
    }

    /// Runs rounds until the result is dropped.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(mut self) -> io::Result<Background> {
        Background::start("scrub", move |progress| {
            if self.maintenance.is_running()
                || (matches!(self.stage, Stage::Over) && !self.is_due())
            {
                return TICK;
            }
            let begun = Instant::now();
            if self.step(progress).is_err() {
                return TICK;
            }
            (begun.elapsed() * PAUSE_FACTOR).max(MIN_PAUSE)
        })
    }

    /// Does a whole round without pauses. Returns the findings that the previous round did not
    /// have.
    ///
    /// # Errors
    /// The store is closed, or the round was cancelled through `progress`.
    pub fn round(&mut self, progress: &Progress) -> Result<Vec<String>> {
        self.stage = Stage::Over;
        let before = self.known.clone();
        loop {
            self.step(progress)?;
            if let Stage::Over = self.stage {
                return Ok(self.known.difference(&before).cloned().collect());
            }
        }
    }

    fn is_due(&self) -> bool {
        self.begun
            .is_none_or(|begun| self.clock.steady().since(begun) >= self.interval)
    }

    /// Does one small step.
    fn step(&mut self, progress: &Progress) -> Result<()> {
        let store = &self.maintenance.0.store;
        let (faults, next) = match &self.stage {
            Stage::Over => {
                self.begun = Some(self.clock.steady());
                (Vec::new(), Stage::Blocks(0))
            }
            Stage::Blocks(from) => {
                let (faults, next) = store.reread_some(*from, BLOCKS);
                (
                    faults,
                    next.map_or_else(|| Stage::Rows(Position::default()), Stage::Blocks),
                )
            }
            Stage::Rows(position) => {
                let (faults, next) = store.check_some(position, ROWS, progress)?;
                (faults, next.map_or(Stage::Keys, Stage::Rows))
            }
            Stage::Keys => {
                let checked = store
                    .read(|read| file_check::check_keys(read, &self.maintenance.0.sealed_keys));
                (
                    checked.map_or_else(
                        |error| vec![format!("the keys cannot be read: {error}")],
                        |(faults, _)| faults,
                    ),
                    Stage::Over,
                )
            }
        };
        for fault in faults {
            self.report(fault);
        }
        if let Stage::Over = next {
            self.end();
        }
        self.stage = next;
        Ok(())
    }

    fn report(&mut self, fault: String) {
        if self.found.len() < MAX_LOGGED && !self.found.contains(&fault) {
            if !self.known.contains(&fault) {
                tracing::error!(fault, "the data file has a fault");
            }
            self.found.insert(fault);
        }
    }

    fn end(&mut self) {
        self.known = std::mem::take(&mut self.found);
        let metrics = self.maintenance.metrics();
        metrics.scrub_at.set(self.clock.now().seconds());
        metrics
            .scrub_faults
            .set(i64::try_from(self.known.len()).unwrap_or(i64::MAX));
        if !self.known.is_empty() {
            tracing::warn!(
                faults = self.known.len(),
                "the data file is damaged; overkeep check lists the faults, overkeep repair repairs those that have exactly one correct repair; keep the last good snapshot"
            );
        }
    }
}
