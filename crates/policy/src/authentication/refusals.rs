//! Writes rejected callers into the history, aggregated so that a flood costs a few rows a minute.
//!
//! The first rejection after a quiet minute is written at once. Those of the following minute are
//! counted in memory per distinct [`RejectedCaller`] and written when it is over; beyond [`LIMIT`]
//! distinct ones, the others share one row. A crash loses that minute. Rejected dials and binds are
//! counted apart from rejected logins, so that a flood of one kind does not hide the other.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use model::{
    clock::Timestamp,
    entity::{Action, Authenticator, Author, HistoryEntry, Id, Identity, Service, TypedLookup},
    error::{Error, Refusal, Result},
    metrics::MethodCounter,
};
use serde_json::{Map, json};
use store::{Store, Tx};

use super::Caller;

/// The interval between two writes.
const REST: Duration = Duration::from_secs(60);
/// At most this many distinct rejections are counted separately.
const LIMIT: usize = 16;

/// A log-in with a password.
const PASSWORD: &str = "password";
/// A dial at the router.
pub const DIAL: &str = "dial";
/// A request at the router to host a service.
pub const BIND: &str = "bind";
/// Several dials and binds.
const TRAFFIC: &str = "traffic";

/// A rejected caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RejectedCaller {
    /// What was rejected: a login by its method (`password`, `cert`, `ext-jwt`), `mfa`,
    /// `enrollment` or `permission`; [`DIAL`] or [`BIND`] at the router, or `traffic` for several
    /// of these. Blank: several of the others.
    pub what: &'static str,
    /// The id of the identity that the caller claimed to be, if it exists. For a dial or bind, the
    /// authenticated identity.
    pub identity: Option<String>,
    pub address: Option<String>,
    /// The id of the service of a dial or bind, if the session names one.
    pub service: Option<String>,
    /// Why a dial or bind was rejected. Blank: unknown.
    pub reason: &'static str,
}

impl RejectedCaller {
    /// The entry for an error, if it is a rejection. `caller` is `None` for an unauthenticated one.
    pub fn of(error: &Error, caller: Option<&Caller>, address: Option<String>) -> Option<Self> {
        let what = match error {
            Error::Unauthorized { anonymous: false } if caller.is_some() => "permission",
            Error::Refused(Refusal::MfaInvalidToken) => "mfa",
            Error::Refused(Refusal::WrongCurrentPassword) => PASSWORD,
            Error::Refused(Refusal::InvalidEnrollmentToken) => "enrollment",
            _ => return None,
        };
        Some(Self {
            what,
            identity: caller.map(|caller| caller.identity.id.to_string()),
            address,
            ..Self::default()
        })
    }
}

impl RejectedCaller {
    fn is_of_traffic(&self) -> bool {
        matches!(self.what, DIAL | BIND | TRAFFIC)
    }

    /// The entry that replaces this one when too many are distinct.
    fn among_many(&self) -> Self {
        Self {
            what: if self.is_of_traffic() { TRAFFIC } else { "" },
            ..Self::default()
        }
    }
}

/// Counts rejections. Cheap to clone.
#[derive(Clone, Default)]
pub struct Refusals(Arc<Mutex<RefusalTables>>, MethodCounter);

#[derive(Default)]
struct RefusalTables {
    /// Logins and requests.
    callers: RefusalTable,
    /// Dials and binds.
    traffic: RefusalTable,
}

#[derive(Default)]
struct RefusalTable {
    counted: Vec<Count>,
    written_at: Option<Timestamp>,
}

#[derive(Debug, Clone)]
struct Count {
    of: RejectedCaller,
    times: u64,
    first: Timestamp,
    last: Timestamp,
}

impl Refusals {
    /// Counts a rejection and writes the due entries.
    pub async fn note(&self, store: &Store, refused: RejectedCaller, now: Timestamp) {
        self.1.count(refused.what);
        let due = self.with(|tables| {
            tables.table_for(&refused).count(refused, now);
            tables.due(now)
        });
        if !due.is_empty() {
            warn(store.write(move |tx| append_rows(tx, due)).await);
        }
    }

    /// Writes the due entries; if `is_over`, all entries. Blocks.
    pub fn write(&self, store: &Store, now: Timestamp, is_over: bool) {
        let due = self.with(|tables| {
            if is_over {
                tables.all()
            } else {
                tables.due(now)
            }
        });
        if !due.is_empty() {
            warn(store.write_blocking(move |tx| append_rows(tx, due)));
        }
    }

    /// The counter of all rejections.
    pub fn counter(&self) -> &MethodCounter {
        &self.1
    }

    fn with<T>(&self, work: impl FnOnce(&mut RefusalTables) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RefusalTables {
    fn table_for(&mut self, refused: &RejectedCaller) -> &mut RefusalTable {
        if refused.is_of_traffic() {
            &mut self.traffic
        } else {
            &mut self.callers
        }
    }

    fn due(&mut self, now: Timestamp) -> Vec<Count> {
        let mut due = self.callers.due(now);
        due.extend(self.traffic.due(now));
        due
    }

    fn all(&mut self) -> Vec<Count> {
        let mut all = std::mem::take(&mut self.callers.counted);
        all.append(&mut self.traffic.counted);
        all
    }
}

impl RefusalTable {
    fn count(&mut self, refused: RejectedCaller, now: Timestamp) {
        let known = self.counted.iter().any(|count| count.of == refused);
        let of = if known || self.counted.len() < LIMIT {
            refused
        } else {
            refused.among_many()
        };
        match self.counted.iter_mut().find(|count| count.of == of) {
            Some(count) => (count.times, count.last) = (count.times + 1, now),
            None => self.counted.push(Count {
                of,
                times: 1,
                first: now,
                last: now,
            }),
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

fn append_rows(tx: &Tx<'_>, due: Vec<Count>) -> Result<()> {
    due.into_iter().try_for_each(
        |Count {
             of:
                 RejectedCaller {
                     what,
                     identity,
                     address,
                     service,
                     reason,
                 },
             times,
             first,
             last,
         }| {
            let mut after = Map::new();
            for (member, value) in [
                ("what", json!(what)),
                ("times", json!(times)),
                ("first", json!(first)),
                ("last", json!(last)),
            ] {
                after.insert(member.into(), value);
            }
            if !reason.is_empty() {
                after.insert("reason".into(), json!(reason));
            }
            if let Some(service) = service {
                let name = tx
                    .find::<Service>(&Id::from_text(service.as_str()))?
                    .map(|service| service.spec.name.clone());
                after.insert("service".into(), json!(service));
                after.extend(name.map(|name| ("serviceName".to_owned(), json!(name))));
            }
            let id = identity.unwrap_or_default();
            let name = tx
                .find::<Identity>(&Id::from_text(id.as_str()))?
                .map(|identity| identity.spec.name.clone());
            if what == PASSWORD {
                after.extend(
                    username(tx, &id)?.map(|username| ("username".to_owned(), json!(username))),
                );
            }
            let entry = HistoryEntry::to::<Identity>(Action::Refusal, &id);
            tx.append_history_of(
                Author::remote(address),
                HistoryEntry {
                    name,
                    after: Some(after),
                    ..entry
                },
            )
        },
    )
}

/// The user name that was tried with a wrong password: that of the identity, because no other one
/// leads to it.
fn username(tx: &Tx<'_>, identity: &str) -> Result<Option<String>> {
    let held = tx.linked::<Authenticator>("identity", identity)?;
    Ok(held
        .iter()
        .find_map(|record| record.spec.credential.username())
        .map(str::to_owned))
}

fn warn(written: Result<()>) {
    if let Err(error) = written {
        tracing::warn!(%error, "rejected callers could not be written into the history");
    }
}
