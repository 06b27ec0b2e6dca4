//! Rows of the history for the access that somebody gained or lost, found out from the history itself.
//!
//! What a change gives and takes can be much, and nobody who makes one waits for it. So an engine of its own follows the history row by row,
//! behind the times, and compares what it knew before each change with what it knows after. What it finds becomes a row, in the name of
//! whoever made the change. The engine is filled when it is needed, from the store as it is and then back along the history to where it is to
//! begin, and let go when nothing has happened for long.
//!
//! Invariant: how far it is gets written down together with the rows, so that a crash neither loses nor doubles one; and what waits, waits in
//! the history, not in memory. Where changes come faster than they can be told one by one, several are told of in one row.

use std::{
    collections::HashMap,
    convert::Infallible,
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{
    Changes, Difference, Engine, Subject,
    feed::{fill, subject},
    history_rows::{RowFacts, delta, kinds, telling},
};
use crate::{
    entity::{
        AccessChange, Action, Author, EdgeRouter, Entity, FactsExt, HistoryEntry, HistoryRow, Id, Identity, Named, PairCount, Pairs,
        PostureCheck, Service,
    },
    error::{Error, Result},
    store::{Read, Store},
};

/// The setting that says up to which row of the history everything is told.
const SETTING: &str = "access told";
/// So many are named of each side.
const NAMED: usize = 20;
/// Rows that are looked at together, and more only to the end of a change.
const ROWS: usize = 4096;
/// Changes of one round that are told one by one; more are told some at a time.
const MOST: usize = 32;
/// The same while there is a backlog.
const FEW: usize = 4;
/// How long a round may take, of those that come by themselves, before what it has found is written.
const LONG: Duration = Duration::from_millis(250);
/// After a round it rests so many times as long as that took: then it takes a tenth of a core at most.
const SHARE: u32 = 9;
/// It rests no less than this where it has caught up, and this long after a failure.
const REST: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(10);
/// An engine that nobody needed for so long is let go.
const IDLE: Duration = Duration::from_secs(600);
/// After so many rows in which nothing is to be found it is written down how far they were read.
const PASSED: u64 = 10_000;

/// Follows the history of a store. Cheap to clone.
#[derive(Clone)]
pub struct AccessAudit(Arc<Mutex<Progress>>);

struct Progress {
    store: Store,
    /// Who might use what as of the last row seen; none until it is needed.
    engine: Option<Engine>,
    /// When it was needed last.
    needed: Instant,
    /// Whether the last round left changes untold.
    is_behind: bool,
    /// Up to this row everything is told.
    seen: u64,
    /// As it is written down.
    noted: u64,
}

/// Changes that are told of in one row.
struct Share {
    rows: Vec<HistoryRow>,
    changes: u64,
    by: Author,
}

impl AccessAudit {
    /// Goes on where it was; in a file that knows nothing of it yet, at the end of the history.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn following(store: &Store) -> Result<Self> {
        let noted = store.read(|tx| tx.setting(SETTING))?.and_then(|seen| seen.try_into().ok()).map(u64::from_le_bytes);
        let seen = noted.map_or_else(|| begin(store), Ok)?;
        let progress = Progress { store: store.clone(), engine: None, needed: Instant::now(), is_behind: false, seen, noted: seen };
        Ok(Self(Arc::new(Mutex::new(progress))))
    }

    /// Does some of what there is to do; says how long to wait before the next time.
    pub fn go_on(&self) -> Duration {
        self.with(|progress| {
            if !progress.store.is_alive() {
                return PATIENCE;
            }
            let begun = Instant::now();
            match progress.round(LONG) {
                Ok(true) => begun.elapsed() * SHARE,
                Ok(false) => {
                    progress.rest();
                    REST.max(begun.elapsed() * SHARE)
                }
                Err(error) => {
                    tracing::warn!(%error, "who gained and lost access could not be told in the history");
                    PATIENCE
                }
            }
        })
    }

    /// Does everything there is to do, however long it takes.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn catch_up(&self) -> Result<()> {
        self.with(|progress| {
            // However much there is, it need not hurry.
            progress.is_behind = false;
            while progress.round(Duration::MAX)? {}
            Ok(())
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Progress) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Notes the end of the history as the place to begin.
fn begin(store: &Store) -> Result<u64> {
    store.write_blocking(|tx| {
        let end = tx.history_end()?;
        tx.set_setting(SETTING, Some(&end.to_le_bytes()))?;
        Ok(end)
    })
}

impl Progress {
    /// Tells of some changes, about so long. Says whether there are more.
    fn round(&mut self, long: Duration) -> Result<bool> {
        let told = self.tell_some(long);
        if let Err(error) = &told {
            // It may know more than was told.
            self.engine = None;
            if matches!(error, Error::Damaged { kind: "history", .. }) {
                // Nobody will ever read that row; what comes behind all of them can still be told.
                self.seen = self.store.read(|tx| tx.history_end())?;
            }
        }
        told
    }

    fn tell_some(&mut self, long: Duration) -> Result<bool> {
        let Found { gone, rows, end } = self.store.read(|tx| some(tx, self.seen))?;
        if gone > self.seen {
            // Of changes that the history does not keep any more it tells nothing either.
            (self.engine, self.seen) = (None, gone);
        }
        let (names, is_full) = (names(&rows), rows.len() >= ROWS);
        let most = if is_full || self.is_behind { FEW } else { MOST };
        let (mut shares, mut told, mut seen) = (shares(rows, most).into_iter(), Vec::new(), end);
        let begun = Instant::now();
        while let Some(share) = shares.next() {
            let engine = self.engine()?;
            let back = engine.follow(&share.rows);
            let gains = self.store.read(|tx| Ok(share.gains(&back, |subject, id| named(tx, &names, subject, id))))?;
            let last = gains.last;
            told.extend(share.told(gains));
            if begun.elapsed() > long && shares.len() > 0 {
                seen = last;
                break;
            }
        }
        self.note(seen, told)?;
        self.is_behind = is_full || seen < end;
        Ok(self.is_behind)
    }

    /// The engine as of the last row seen.
    fn engine(&mut self) -> Result<&mut Engine> {
        let engine = match self.engine.take() {
            Some(engine) => engine,
            None => self.store.read(|tx| as_of(tx, self.seen))?,
        };
        self.needed = Instant::now();
        Ok(self.engine.insert(engine))
    }

    /// Gives memory back where nothing has happened for long.
    fn rest(&mut self) {
        if self.needed.elapsed() > IDLE {
            self.engine = None;
        }
    }

    /// Writes what was found, and how far everything was looked at.
    fn note(&mut self, seen: u64, told: Vec<(Author, HistoryEntry)>) -> Result<()> {
        if !told.is_empty() || seen.saturating_sub(self.noted) > PASSED {
            self.store.write_blocking(move |tx| {
                told.into_iter().try_for_each(|(author, entry)| tx.tell_of(author, entry))?;
                tx.set_setting(SETTING, Some(&seen.to_le_bytes()))
            })?;
            self.noted = seen;
        }
        self.seen = seen;
        Ok(())
    }
}

/// An engine that knows what could be known when a row was the last of the history.
fn as_of(tx: &Read<'_>, sequence: u64) -> Result<Engine> {
    if tx.history_gone()? > sequence {
        return Err(Error::Internal("the history forgets faster than it can be followed".into()));
    }
    let mut engine = Engine::default();
    fill(&mut engine, tx)?;
    let kinds: Vec<&str> = kinds().collect();
    tx.history_back(&kinds, sequence, &mut |row| {
        if let Some(row) = telling(row)
            && let Some(delta) = delta(&engine, &row, RowFacts::Before)
        {
            engine.exchange(&delta);
        }
        Ok(())
    })?;
    Ok(engine)
}

/// What the history has behind a row.
struct Found {
    /// The last row that is not kept any more.
    gone: u64,
    /// What has something to say.
    rows: Vec<HistoryRow>,
    /// The last row up to which that is all.
    end: u64,
}

fn some(tx: &Read<'_>, sequence: u64) -> Result<Found> {
    let (kinds, mut rows) = (kinds().collect::<Vec<_>>(), Vec::<HistoryRow>::new());
    let end = tx.history_of(&kinds, sequence, &mut |row| {
        if rows.len() >= ROWS && rows.last().is_some_and(|last| last.change() != row.change()) {
            return Ok(ControlFlow::Break(()));
        }
        rows.extend(telling(row));
        Ok(ControlFlow::Continue(()))
    })?;
    let gone = tx.history_gone()?;
    Ok(Found { gone, rows, end: end.max(gone) })
}

/// Rows by changes; where these are more than `most`, several together, if possible only those of one author.
fn shares(rows: Vec<HistoryRow>, most: usize) -> Vec<Share> {
    let one = |row: HistoryRow| Share { changes: 1, by: row.by.clone(), rows: vec![row] };
    let mut changes = joined(rows.into_iter().map(one).collect(), usize::MAX, |one, next| one.change() == next.change());
    changes.iter_mut().for_each(|change| change.changes = 1);
    let together = changes.len().div_ceil(most);
    let shares = joined(changes, together, |one, next| one.by == next.by);
    let together = shares.len().div_ceil(2 * most);
    joined(shares, together, |_, _| true)
}

/// Neighbours that fit together, at most so many, as one.
fn joined(shares: Vec<Share>, most: usize, fit: impl Fn(&Share, &Share) -> bool) -> Vec<Share> {
    let (mut joined, mut count) = (Vec::<Share>::new(), 0);
    for next in shares {
        match joined.last_mut().filter(|last| count < most && fit(last, &next)) {
            Some(last) => {
                last.changes += next.changes;
                last.rows.extend(next.rows);
                if last.by != next.by {
                    last.by = Author::several();
                }
                count += 1;
            }
            None => {
                joined.push(next);
                count = 1;
            }
        }
    }
    joined
}

impl Share {
    fn change(&self) -> Option<u64> {
        self.rows.last().map(HistoryRow::change)
    }

    /// The row of what the first change was made to: it comes behind what goes with its end, and before what its beginning brings about.
    fn subject(&self) -> Option<&HistoryRow> {
        let first = self.rows.first()?;
        let last = self.rows.iter().take_while(|row| row.change() == first.change()).last()?;
        Some(if last.action == Action::Delete { last } else { first })
    }

    /// What they gave and took, by what their undoing would give and take.
    fn gains(&self, back: &Difference, name: impl Fn(Subject, &str) -> Named) -> AccessChange {
        let Ok(Difference { dial, bind, identity_routers, service_routers }) =
            back.named(|subject, id| Ok::<_, Infallible>(name(subject, id)));
        let [dial, bind, identity_routers, service_routers] =
            [dial, bind, identity_routers, service_routers].map(|Changes { gained, lost }| {
                let any = |tally: PairCount<Named>| (tally.pairs > 0).then_some(tally);
                (any(lost), any(gained))
            });
        AccessChange {
            first: self.rows.first().map_or(0, HistoryRow::change),
            last: self.rows.last().map_or(0, |row| row.sequence),
            changes: self.changes,
            gained: Pairs { dial: dial.0, bind: bind.0, identity_routers: identity_routers.0, service_routers: service_routers.0 },
            lost: Pairs { dial: dial.1, bind: bind.1, identity_routers: identity_routers.1, service_routers: service_routers.1 },
        }
    }

    /// The row to be; none, if nothing is different.
    fn told(self, gains: AccessChange) -> Option<(Author, HistoryEntry)> {
        let subject = self.subject().filter(|_| !gains.is_none())?;
        let entry = HistoryEntry {
            action: Action::Access,
            kind: kinds().find(|kind| *kind == subject.kind)?,
            id: subject.id.clone(),
            name: subject.name.clone(),
            before: None,
            after: None,
            access: Some(Box::new(gains)),
        };
        Some((self.by, entry))
    }
}

impl Engine {
    /// Learns what rows tell; answers what their undoing would give and take.
    fn follow(&mut self, rows: &[HistoryRow]) -> Difference {
        let mut back = Vec::new();
        for row in rows {
            if let Some(delta) = delta(self, row, RowFacts::After) {
                back.push(self.exchange(&delta));
            }
        }
        // Of several about one subject, the one that counts is the last: as it was at first.
        back.reverse();
        self.preview(&back, NAMED)
    }
}

type Names = HashMap<(Subject, String), String>;

/// What rows call those they are about, who may be gone since.
fn names(rows: &[HistoryRow]) -> Names {
    rows.iter().filter_map(|row| Some(((subject(&row.kind)?, row.id.clone()), row.name.clone()?))).collect()
}

fn named(tx: &Read<'_>, names: &Names, subject: Subject, id: &str) -> Named {
    fn stored<E: Entity>(tx: &Read<'_>, id: &str, name: fn(&E) -> &String) -> Option<String> {
        // A record that cannot be read has no name; others tell of the damage.
        tx.find(&Id::from_text(id)).ok().flatten().map(|record| name(&record.spec).clone())
    }
    let told = names.get(&(subject, id.to_owned())).cloned();
    let name = told.or_else(|| match subject {
        Subject::Identity => stored::<Identity>(tx, id, |identity| &identity.name),
        Subject::Service => stored::<Service>(tx, id, |service| &service.name),
        Subject::EdgeRouter => stored::<EdgeRouter>(tx, id, |router| &router.name),
        Subject::PostureCheck => stored::<PostureCheck>(tx, id, |check| &check.name),
    });
    Named { id: id.into(), name: name.unwrap_or_default() }
}
