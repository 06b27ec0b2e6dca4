//! Refused callers on their way into the history, counted so that a flood of them costs a few rows a minute.
//!
//! The first refusal after a quiet minute is written at once. Those of the minute that follows are counted in memory, by how, who and
//! where from, and written when it is over; beyond [`MOST`] different ones, the others are one row. A crash loses that minute.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value as Json, json};

use super::Caller;
use crate::{
    clock::Timestamp,
    entity::{Action, Author, HistoryEntry, Identity},
    error::{Error, Refusal, Result},
    store::{Store, Tx},
};

/// Between two writes.
const REST: Duration = Duration::from_secs(60);
/// At most this many different refusals are told apart.
const MOST: usize = 16;

/// Somebody who was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    /// What was refused: a login by its method (`password`, `cert`, `ext-jwt`), `mfa`, `enrollment` or `permission`. Blank: several.
    pub what: &'static str,
    /// The id of whom the caller claimed to be, where that is somebody.
    pub identity: Option<String>,
    pub address: Option<String>,
}

impl Refused {
    /// The refusal that an error is, if it is one: of a caller who is known by now, or of a stranger.
    pub fn of(error: &Error, caller: Option<&Caller>, address: Option<String>) -> Option<Self> {
        let what = match error {
            Error::Unauthorized { anonymous: false } if caller.is_some() => "permission",
            Error::Refused(Refusal::MfaInvalidToken) => "mfa",
            Error::Refused(Refusal::WrongCurrentPassword) => "password",
            Error::Refused(Refusal::InvalidEnrollmentToken) => "enrollment",
            _ => return None,
        };
        Some(Self { what, identity: caller.map(|caller| caller.identity.id.to_string()), address })
    }
}

/// Counts refusals. Cheap to clone.
#[derive(Clone, Default)]
pub struct Refusals(Arc<Mutex<RefusalTable>>);

#[derive(Default)]
struct RefusalTable {
    counted: Vec<Count>,
    written_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
struct Count {
    of: Refused,
    times: u64,
    first: Timestamp,
    last: Timestamp,
}

impl Refusals {
    /// Counts a refusal, and writes what is due.
    pub async fn note(&self, store: &Store, refused: Refused, now: Timestamp) {
        let due = self.with(|book| {
            book.count(refused, now);
            book.due(now)
        });
        if !due.is_empty() {
            warn(store.write(move |tx| tell(tx, due)).await);
        }
    }

    /// Writes what is due, or at the end everything. Blocks.
    pub fn write(&self, store: &Store, now: Timestamp, is_over: bool) {
        let due = self.with(|book| if is_over { std::mem::take(&mut book.counted) } else { book.due(now) });
        if !due.is_empty() {
            warn(store.write_blocking(move |tx| tell(tx, due)));
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut RefusalTable) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RefusalTable {
    fn count(&mut self, refused: Refused, now: Timestamp) {
        let known = self.counted.iter().any(|count| count.of == refused);
        let of = if known || self.counted.len() < MOST { refused } else { Refused::default() };
        match self.counted.iter_mut().find(|count| count.of == of) {
            Some(count) => (count.times, count.last) = (count.times + 1, now),
            None => self.counted.push(Count { of, times: 1, first: now, last: now }),
        }
    }

    fn due(&mut self, now: Timestamp) -> Vec<Count> {
        if self.counted.is_empty() || self.written_at.is_some_and(|at| now.apart(at) < REST) {
            return Vec::new();
        }
        self.written_at = Some(now);
        std::mem::take(&mut self.counted)
    }
}

fn tell(tx: &Tx<'_>, due: Vec<Count>) -> Result<()> {
    due.into_iter().try_for_each(|Count { of: Refused { what, identity, address }, times, first, last }| {
        let members = [("what", json!(what)), ("times", json!(times)), ("first", json!(first)), ("last", json!(last))];
        let after: Map<String, Json> = members.into_iter().map(|(member, value)| (member.to_owned(), value)).collect();
        let entry = HistoryEntry::to::<Identity>(Action::Refusal, identity.as_deref().unwrap_or_default());
        tx.tell_of(Author::remote(address), HistoryEntry { after: Some(after), ..entry })
    })
}

fn warn(written: Result<()>) {
    if let Err(error) = written {
        tracing::warn!(%error, "refused callers could not be written into the history");
    }
}
