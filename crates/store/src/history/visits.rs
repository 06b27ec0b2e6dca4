//! Log-ins that are counted instead of written, so that an identity that logs in and out all the
//! time costs a few rows a minute.
//!
//! Log-ins of an identity with the same credential from the same address are alike, and so are its
//! log-outs. The first one after a quiet minute is a row in the transaction of the session. Those
//! alike in the following minute are counted in memory, and written as one row with the count once
//! the minute is over (`Store::write_visits`). Beyond [`LIMIT`] different ones of an identity in
//! that minute, the others count as alike. A crash loses the counts of that minute. Sessions that
//! somebody else ends have a row each: only who has the right to do so can cause them.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Map, json};

use model::{
    clock::Timestamp,
    entity::{Author, HistoryEntry},
};

/// The time for which log-ins are counted.
const REST: Duration = Duration::from_secs(60);
/// At most this many different log-ins of an identity are counted separately.
const LIMIT: usize = 16;
/// Log-ins of at most this many identities are counted at the same time; those of others are
/// written.
const IDENTITIES: usize = 100_000;

/// A log-in or log-out of one transaction.
pub(crate) struct Visit {
    identity: u64,
    alike: u64,
    /// Whether its credential and address are not counted separately, because the identity has too
    /// many of them.
    is_one_of_many: bool,
    entry: HistoryEntry,
    author: Author,
    at: Timestamp,
    is_counted: bool,
}

/// The log-ins and log-outs of a transaction, which take effect when it is kept.
#[derive(Default)]
pub(crate) struct PendingVisits(Vec<Visit>);

/// Log-ins that are alike, of which the last is shown.
pub(super) struct Counted {
    entry: HistoryEntry,
    author: Author,
    times: u64,
    first: Timestamp,
    last: Timestamp,
}

/// The log-ins of an identity since a quiet minute.
struct Identity {
    since: Timestamp,
    /// By what they have in common; nothing is counted yet while there is only the one that was
    /// written.
    alike: HashMap<u64, Option<Counted>>,
}

/// Log-ins that are counted. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Visits(Arc<Mutex<HashMap<u64, Identity>>>, Arc<RandomState>);

impl Visits {
    /// The log-in or log-out that a row is about; `None` for other rows.
    fn visit(&self, entry: &HistoryEntry, author: &Author, at: Timestamp) -> Option<Visit> {
        let key = entry.visit(author)?;
        let identity = self.1.hash_one(key.identity);
        let alike = self.1.hash_one(key);
        let is_one_of_many = self.with(|known| {
            let known = known.get(&identity).filter(|known| !known.is_quiet(at));
            known.is_some_and(|known| {
                known.alike.len() >= LIMIT && !known.alike.contains_key(&alike)
            })
        });
        let alike = if is_one_of_many {
            self.1.hash_one((key.goes, key.identity))
        } else {
            alike
        };
        Some(Visit {
            identity,
            alike,
            is_one_of_many,
            entry: entry.clone(),
            author: author.clone(),
            at,
            is_counted: false,
        })
    }

    /// Whether a log-in like this one was written less than a minute ago.
    fn is_known(&self, visit: &Visit) -> bool {
        self.with(|known| {
            let known = known
                .get(&visit.identity)
                .filter(|known| !known.is_quiet(visit.at));
            known.is_some_and(|known| known.alike.contains_key(&visit.alike))
        })
    }

    /// Counts what a transaction did that is kept.
    pub(crate) fn take(&self, PendingVisits(visits): PendingVisits) {
        if visits.is_empty() {
            return;
        }
        self.with(|known| {
            for visit in visits {
                if known.len() >= IDENTITIES && !known.contains_key(&visit.identity) {
                    known.retain(|_, known| !known.is_quiet(visit.at));
                }
                if visit.is_counted
                    || known.len() < IDENTITIES
                    || known.contains_key(&visit.identity)
                {
                    known
                        .entry(visit.identity)
                        .or_insert_with(|| Identity::since(visit.at))
                        .take(visit);
                }
            }
        });
    }

    /// Removes what is to be written: what was counted in a minute that is over; if `is_over`,
    /// everything.
    pub(super) fn due(&self, now: Timestamp, is_over: bool) -> Vec<(u64, u64, Counted)> {
        let mut due = Vec::new();
        self.with(|known| {
            for (identity, known) in known
                .iter_mut()
                .filter(|(_, known)| is_over || known.is_past(now))
            {
                let before = due.len();
                due.extend(
                    known
                        .alike
                        .iter_mut()
                        .filter_map(|(alike, counted)| Some((*identity, *alike, counted.take()?))),
                );
                if due.len() > before {
                    known.since = now;
                }
            }
            known.retain(|_, known| !known.is_quiet(now));
        });
        due
    }

    /// Takes back what could not be written.
    pub(super) fn give_back(&self, counts: Vec<(u64, u64, Counted)>) {
        self.with(|known| {
            for (identity, alike, before) in counts {
                let known = known
                    .entry(identity)
                    .or_insert_with(|| Identity::since(before.first));
                let counted = known.alike.entry(alike).or_default();
                match counted {
                    Some(counted) => {
                        (counted.times, counted.first) =
                            (counted.times + before.times, before.first)
                    }
                    None => *counted = Some(before),
                }
            }
        });
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<u64, Identity>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Identity {
    fn since(since: Timestamp) -> Self {
        Self {
            since,
            alike: HashMap::new(),
        }
    }

    /// Whether the minute is over.
    fn is_past(&self, now: Timestamp) -> bool {
        now.apart(self.since) >= REST
    }

    /// Whether the minute is over and nothing was counted in it.
    fn is_quiet(&self, now: Timestamp) -> bool {
        self.is_past(now) && self.alike.values().all(Option::is_none)
    }

    fn take(
        &mut self,
        Visit {
            alike,
            is_one_of_many,
            mut entry,
            mut author,
            at,
            is_counted,
            ..
        }: Visit,
    ) {
        if self.is_quiet(at) {
            *self = Self::since(at);
        }
        let counted = self.alike.entry(alike).or_default();
        if !is_counted {
            return;
        }
        if is_one_of_many {
            entry.forget_visitor();
            author.address = None;
        }
        let (times, first) = counted
            .as_ref()
            .map_or((0, at), |counted| (counted.times, counted.first));
        *counted = Some(Counted {
            entry,
            author,
            times: times + 1,
            first,
            last: at,
        });
    }
}

impl PendingVisits {
    /// Notes a row that is about to be written. Returns whether it is only counted.
    pub(crate) fn counts(
        &mut self,
        visits: &Visits,
        entry: &HistoryEntry,
        author: &Author,
        at: Timestamp,
    ) -> bool {
        let Some(mut visit) = visits.visit(entry, author, at) else {
            return false;
        };
        visit.is_counted =
            self.0.iter().any(|other| other.alike == visit.alike) || visits.is_known(&visit);
        let is_counted = visit.is_counted;
        self.0.push(visit);
        is_counted
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

impl Counted {
    /// The row: that of the last log-in, with the number and the times of all.
    pub(super) fn row(&self) -> (Author, HistoryEntry) {
        let mut entry = self.entry.clone();
        let after = entry.after.get_or_insert_with(Map::new);
        for (member, value) in [
            ("times", json!(self.times)),
            ("first", json!(self.first)),
            ("last", json!(self.last)),
        ] {
            after.insert(member.into(), value);
        }
        (self.author.clone(), entry)
    }
}
