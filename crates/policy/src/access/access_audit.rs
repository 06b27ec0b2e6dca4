//! History rows about the access that identities and services gained or lost, computed from the
//! history itself.
//!
//! A change can affect much access, and its caller does not wait for this. A separate engine
//! follows the history row by row, later than the changes, and compares the access before and after
//! each change. The result becomes a row with the author of the change. The engine is filled when
//! it is needed: from the current store, then backwards along the history to the row where it has
//! to start. It is dropped after a long time without changes.
//!
//! Invariant: the position is stored in the same transaction as the rows, so that a crash neither
//! loses nor duplicates one. Changes that wait are in the history, not in memory. If changes come
//! faster than they can be processed one by one, one row covers several.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use model::{
    entity::{Author, HistoryClass, HistoryEntry, HistoryRow},
    error::{Error, Result},
};
use store::{Read, Store};

use super::{
    Difference, Engine,
    change_shares::{named, names, shares},
    fill::fill,
    history_rows::{RowFacts, delta, kinds, reduced},
};

/// The setting that holds the sequence of the last history row that is processed.
const SETTING: &str = "access told";
/// The greatest number of names in each list of a row.
const MAX_NAMES: usize = 20;
/// The number of rows read at once; more only to complete a change.
const ROWS: usize = 4096;
/// Up to this many changes of one round get a row each; more are combined.
const MAX_LISTED: usize = 32;
/// The same limit while there is a backlog.
const MAX_LISTED_BACKLOG: usize = 4;
/// The duration of a round after which its results are written; only for rounds that run by
/// themselves.
const ROUND_LIMIT: Duration = Duration::from_millis(250);
/// The pause after a round, as a multiple of its duration: the audit uses at most a tenth of a
/// core.
const PAUSE_FACTOR: u32 = 9;
/// The shortest pause once it has caught up (`MIN_PAUSE`), and the pause after a failure
/// (`RETRY_PAUSE`).
const MIN_PAUSE: Duration = Duration::from_secs(1);
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// The engine is dropped when it was not needed for this long.
const IDLE: Duration = Duration::from_secs(600);
/// After this many rows without effect the position is stored.
const STORE_AFTER: u64 = 10_000;

/// Follows the history of a store. Cheap to clone.
#[derive(Clone)]
pub struct AccessAudit(Arc<Mutex<Progress>>);

struct Progress {
    store: Store,
    /// The access as of the last processed row; `None` until it is needed.
    engine: Option<Engine>,
    /// When the engine was last needed.
    needed: Instant,
    /// Whether the last round left changes unprocessed.
    is_behind: bool,
    /// The last processed row.
    seen: u64,
    /// The last processed row as stored in the setting.
    noted: u64,
}

impl AccessAudit {
    /// Continues at the stored position; in a file without one, at the end of the history.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn following(store: &Store) -> Result<Self> {
        let noted = store
            .read(|tx| tx.setting(SETTING))?
            .and_then(|seen| seen.try_into().ok())
            .map(u64::from_le_bytes);
        let seen = noted.map_or_else(|| begin(store), Ok)?;
        let progress = Progress {
            store: store.clone(),
            engine: None,
            needed: Instant::now(),
            is_behind: false,
            seen,
            noted: seen,
        };
        Ok(Self(Arc::new(Mutex::new(progress))))
    }

    /// Runs one round. Returns how long to wait before the next one.
    pub fn run_round(&self) -> Duration {
        self.with(|progress| {
            if !progress.store.is_alive() {
                return RETRY_PAUSE;
            }
            let begun = Instant::now();
            match progress.process(ROUND_LIMIT) {
                Ok(true) => begun.elapsed() * PAUSE_FACTOR,
                Ok(false) => {
                    progress.rest();
                    MIN_PAUSE.max(begun.elapsed() * PAUSE_FACTOR)
                }
                Err(error) => {
                    tracing::warn!(%error, "the access audit failed and is retried; until then the history lacks rows about access");
                    RETRY_PAUSE
                }
            }
        })
    }

    /// Processes all changes, however long it takes.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn catch_up(&self) -> Result<()> {
        self.with(|progress| {
            // A backlog is no reason to combine changes here.
            progress.is_behind = false;
            while progress.process(Duration::MAX)? {}
            Ok(())
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Progress) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Stores the end of the history as the position to start from.
fn begin(store: &Store) -> Result<u64> {
    store.write_blocking(|tx| {
        let end = tx.read().history_end()?;
        tx.set_setting(SETTING, Some(&end.to_le_bytes()))?;
        Ok(end)
    })
}

impl Progress {
    /// Processes changes for about this long. Returns whether there are more.
    fn process(&mut self, long: Duration) -> Result<bool> {
        let result = self.record_some(long);
        if let Err(error) = &result {
            // The engine may be ahead of what was written.
            self.engine = None;
            if matches!(
                error,
                Error::Damaged {
                    kind: "history",
                    ..
                }
            ) {
                // That row can never be read; continue after the end of the history.
                self.seen = self.store.read(|tx| tx.history_end())?;
            }
        }
        result
    }

    fn record_some(&mut self, long: Duration) -> Result<bool> {
        let ReadRows { gone, rows, end } = self.store.read(|tx| some(tx, self.seen))?;
        if gone > self.seen {
            // Changes whose rows were dropped from the history are skipped.
            (self.engine, self.seen) = (None, gone);
        }
        let (names, is_full) = (names(&rows), rows.len() >= ROWS);
        let limit = if is_full || self.is_behind {
            MAX_LISTED_BACKLOG
        } else {
            MAX_LISTED
        };
        let (mut shares, mut entries, mut seen) =
            (shares(rows, limit).into_iter(), Vec::new(), end);
        let begun = Instant::now();
        while let Some(share) = shares.next() {
            let engine = self.engine()?;
            let back = engine.follow(&share.rows);
            let gains = self
                .store
                .read(|tx| Ok(share.gains(&back, |subject, id| named(tx, &names, subject, id))))?;
            let last = gains.last;
            entries.extend(share.entry(gains));
            if begun.elapsed() > long && shares.len() > 0 {
                seen = last;
                break;
            }
        }
        self.note(seen, entries)?;
        self.is_behind = is_full || seen < end;
        Ok(self.is_behind)
    }

    /// The engine as of the last processed row.
    fn engine(&mut self) -> Result<&mut Engine> {
        let engine = match self.engine.take() {
            Some(engine) => engine,
            None => self.store.read(|tx| as_of(tx, self.seen))?,
        };
        self.needed = Instant::now();
        Ok(self.engine.insert(engine))
    }

    /// Drops the engine after a long time without changes.
    fn rest(&mut self) {
        if self.needed.elapsed() > IDLE {
            self.engine = None;
        }
    }

    /// Writes the results and the position.
    fn note(&mut self, seen: u64, entries: Vec<(Author, HistoryEntry)>) -> Result<()> {
        if !entries.is_empty() || seen.saturating_sub(self.noted) > STORE_AFTER {
            self.store.write_blocking(move |tx| {
                entries
                    .into_iter()
                    .try_for_each(|(author, entry)| tx.append_history_of(author, entry))?;
                tx.set_setting(SETTING, Some(&seen.to_le_bytes()))
            })?;
            self.noted = seen;
        }
        self.seen = seen;
        Ok(())
    }
}

/// An engine with the state as of a row of the history.
fn as_of(tx: &Read<'_>, sequence: u64) -> Result<Engine> {
    if tx.changes_gone()? > sequence {
        return Err(Error::Internal(
            "history rows were dropped before the access audit read them".into(),
        ));
    }
    let mut engine = Engine::default();
    fill(&mut engine, tx)?;
    let kinds: Vec<&str> = kinds().collect();
    tx.history_back(HistoryClass::Changes, &kinds, sequence, &mut |row| {
        if let Some(row) = reduced(row)
            && let Some(delta) = delta(&engine, &row, RowFacts::Before)
        {
            engine.exchange(&delta);
        }
        Ok(())
    })?;
    Ok(engine)
}

/// Rows of the history after a position.
struct ReadRows {
    /// The last row that was dropped.
    gone: u64,
    /// The rows that may affect access.
    rows: Vec<HistoryRow>,
    /// The last row covered by `rows`.
    end: u64,
}

fn some(tx: &Read<'_>, sequence: u64) -> Result<ReadRows> {
    let (kinds, mut rows) = (kinds().collect::<Vec<_>>(), Vec::<HistoryRow>::new());
    let end = tx.changes_of(&kinds, sequence, &mut |row| {
        if rows.len() >= ROWS
            && rows
                .last()
                .is_some_and(|last| last.change() != row.change())
        {
            return Ok(ControlFlow::Break(()));
        }
        rows.extend(reduced(row));
        Ok(ControlFlow::Continue(()))
    })?;
    let gone = tx.changes_gone()?;
    Ok(ReadRows {
        gone,
        rows,
        end: end.max(gone),
    })
}

impl Engine {
    /// Applies rows. Returns what undoing them would give and take.
    fn follow(&mut self, rows: &[HistoryRow]) -> Difference {
        let mut back = Vec::new();
        for row in rows {
            if let Some(delta) = delta(self, row, RowFacts::After) {
                back.push(self.exchange(&delta));
            }
        }
        // Of several deltas about one subject the last one counts, so that the oldest state must
        // come last.
        back.reverse();
        self.difference(&back, MAX_NAMES)
    }
}
