//! A slow look at everything that finds damage by itself, while nobody asks: what the disk still has of what it was given, then every row
//! of every table, then the keys.
//!
//! In small steps with long rests, so that it takes its share of the processor and no more, however large the file is. What it finds goes to
//! the log, once; whoever asks for a check is told as well. Invariant: it changes nothing, and keeps nobody waiting; while a check or a
//! repair is asked for it rests.

use std::{
    collections::BTreeSet,
    io,
    time::{Duration, Instant},
};

use super::{Background, Maintenance, soundness};
use crate::{
    clock::{Clock, Timestamp},
    config::Integrity,
    error::Result,
    store::{Position, Progress},
};

/// Blocks of the file, and rows, in one step.
const BLOCKS: u64 = 64;
const ROWS: usize = 64;
/// It rests so many times as long as it worked: then it takes half a percent of a core.
const REST: u32 = 200;
/// It rests no less than this after a step, and looks this often whether a round is due.
const SHORT: Duration = Duration::from_millis(20);
const TICK: Duration = Duration::from_secs(20);
/// At most this many findings of one round are logged.
const TOLD: usize = 100;

/// Rounds over everything.
pub struct Scrub {
    maintenance: Maintenance,
    clock: Clock,
    interval: Duration,
    /// By the steady clock.
    begun: Option<Timestamp>,
    stage: Stage,
    /// What this round has found, and what the one before did.
    found: BTreeSet<String>,
    known: BTreeSet<String>,
}

/// How far the round is.
enum Stage {
    Over,
    Blocks(u64),
    Rows(Position),
    Keys,
}

impl Scrub {
    /// As the settings ask for; the first round begins at once.
    pub fn of(settings: &Integrity, maintenance: Maintenance, clock: Clock) -> Self {
        let (found, known) = (BTreeSet::new(), BTreeSet::new());
        Self { maintenance, clock, interval: settings.scrub_interval.duration(), begun: None, stage: Stage::Over, found, known }
    }

    /// Goes on with it until that is dropped.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(mut self) -> io::Result<Background> {
        Background::start("scrub", move |watch| {
            if self.maintenance.is_running() || (matches!(self.stage, Stage::Over) && !self.is_due()) {
                return TICK;
            }
            let begun = Instant::now();
            if self.step(watch).is_err() {
                return TICK;
            }
            (begun.elapsed() * REST).max(SHORT)
        })
    }

    /// A whole round without rests. Answers what it found that the one before had not.
    ///
    /// # Errors
    /// The store is closed, or the watcher stopped it.
    pub fn round(&mut self, watch: &Progress) -> Result<Vec<String>> {
        self.stage = Stage::Over;
        let before = self.known.clone();
        loop {
            self.step(watch)?;
            if let Stage::Over = self.stage {
                return Ok(self.known.difference(&before).cloned().collect());
            }
        }
    }

    fn is_due(&self) -> bool {
        self.begun.is_none_or(|begun| self.clock.steady().since(begun) >= self.interval)
    }

    /// One small step.
    fn step(&mut self, watch: &Progress) -> Result<()> {
        let store = &self.maintenance.0.store;
        let (faults, next) = match &self.stage {
            Stage::Over => {
                self.begun = Some(self.clock.steady());
                (Vec::new(), Stage::Blocks(0))
            }
            Stage::Blocks(from) => {
                let (faults, next) = store.reread_some(*from, BLOCKS);
                (faults, next.map_or_else(|| Stage::Rows(Position::default()), Stage::Blocks))
            }
            Stage::Rows(place) => {
                let (faults, next) = store.check_some(place, ROWS, watch)?;
                (faults, next.map_or(Stage::Keys, Stage::Rows))
            }
            Stage::Keys => {
                let judged = store.read(|read| soundness::judge_keys(read, &self.maintenance.0.sealed_keys));
                (judged.map_or_else(|error| vec![format!("the keys cannot be read: {error}")], |(faults, _)| faults), Stage::Over)
            }
        };
        faults.into_iter().for_each(|fault| self.tell(fault));
        if let Stage::Over = next {
            self.end();
        }
        self.stage = next;
        Ok(())
    }

    fn tell(&mut self, fault: String) {
        if self.found.len() < TOLD && !self.found.contains(&fault) {
            if !self.known.contains(&fault) {
                tracing::error!(fault, "something is wrong with the data file");
            }
            self.found.insert(fault);
        }
    }

    fn end(&mut self) {
        self.known = std::mem::take(&mut self.found);
        if !self.known.is_empty() {
            tracing::warn!(
                faults = self.known.len(),
                "the data file is damaged; overkeep check tells how, overkeep repair mends what has one right answer; keep the last good snapshot"
            );
        }
    }
}
