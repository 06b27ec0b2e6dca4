//! Rows of the history about hosts that come and go, grouped: a host that is back soon leaves none,
//! a service has at most one row in a round, and many services at once share one. After a start,
//! the rows say who hosted what before it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use model::{
    clock::Timestamp,
    entity::{
        Action, Entity, HistoryClass, HistoryEntry, HistoryRow, Id, Identity, Service, Terminator,
        TypedLookup,
    },
    error::Result,
};
use serde_json::{Map, Value as Json, json};
use store::{Read, Store, Tx};

use super::{
    Hosting,
    table::{Absence, HostKey},
};

/// How long the hosts of a service must differ from those of its last row.
const SETTLED: Duration = Duration::from_secs(10);
/// How long no rows are written after a start, because hosts and routers connect again.
const STARTED: Duration = Duration::from_secs(60);
/// The interval between two rounds of rows.
const REST: Duration = Duration::from_secs(60);
/// Maximum rows of a round.
const MAX_ROWS: usize = 16;
/// Maximum hosts, and maximum services of the last row of a round, that a row names.
const MAX_NAMED: usize = 20;
/// The rows of the history that are read after a start.
const MAX_READ: u64 = 20_000;

/// The hosts of a service before and after.
struct Difference {
    service: String,
    before: BTreeSet<HostKey>,
    after: BTreeSet<HostKey>,
    at: Timestamp,
    absence: Option<Absence>,
}

impl Hosting {
    /// Writes the rows that are due. Blocks.
    pub fn write_rows(&self, store: &Store) {
        let due = self.due();
        if due.is_empty() {
            return;
        }
        if let Err(error) = store.write_blocking(move |tx| append_rows(tx, due)) {
            tracing::warn!(%error, "hosts that came and went could not be written into the history");
        }
    }

    /// The differences to write. From now on they count as written.
    fn due(&self) -> Vec<Difference> {
        let started = self.0.started;
        self.with_table(|table, now| {
            if now.apart(started) < STARTED
                || table.rows_written_at.is_some_and(|at| now.apart(at) < REST)
            {
                return Vec::new();
            }
            let mut due = Vec::new();
            for (service, state) in table.services_mut() {
                let Some(at) = state
                    .differs_since
                    .filter(|since| now.apart(*since) >= SETTLED)
                else {
                    continue;
                };
                let after = state.hosts();
                let before = std::mem::replace(&mut state.noted, after.clone());
                state.differs_since = None;
                if before != after {
                    due.push(Difference {
                        service: service.to_string(),
                        before,
                        after,
                        at,
                        absence: state.absence(),
                    });
                }
            }
            if !due.is_empty() {
                table.rows_written_at = Some(now);
            }
            due
        })
    }

    /// Reads in the history who hosted what before the start. Blocks.
    pub fn recall(&self, store: &Store) {
        if let Err(error) = store.read(|tx| self.recall_from(tx)) {
            tracing::warn!(%error, "the hosts before the start could not be read in the history");
        }
    }

    fn recall_from(&self, tx: &Read<'_>) -> Result<()> {
        let mut last = BTreeMap::<String, HistoryRow>::new();
        let after = tx.history_end()?.saturating_sub(MAX_READ);
        // Files of format 3 have older ones among the changes.
        for class in [HistoryClass::Sessions, HistoryClass::Changes] {
            tx.history_back(class, &[Service::KIND.name], after, &mut |row| {
                if matches!(row.action, Action::Connect | Action::Disconnect)
                    && !row.id.is_empty()
                    && !last.contains_key(&row.id)
                {
                    last.insert(row.id.clone(), row);
                }
                Ok(())
            })?;
        }
        for (service, row) in last {
            if tx
                .find(&Id::<Service>::from_text(service.as_str()))?
                .is_none()
            {
                continue;
            }
            let after = row.after.unwrap_or_default();
            let left = after
                .get("at")
                .and_then(Json::as_str)
                .and_then(|at| at.parse().ok());
            let hosts = after
                .get("hosts")
                .and_then(Json::as_array)
                .into_iter()
                .flatten()
                .filter_map(host_of)
                .collect();
            self.with_table(|table, _| table.recall(&service, hosts, left, self.0.started));
        }
        Ok(())
    }
}

/// The host in a row.
fn host_of(host: &Json) -> Option<HostKey> {
    let id = |member: &str| host.get(member).and_then(Json::as_str);
    id("identity")
        .map(|id| HostKey::Identity(id.into()))
        .or_else(|| Some(HostKey::Terminator(id("terminator")?.into())))
}

/// Writes a row for each service, those first that nobody hosts. If they are too many, the others
/// share the last row.
fn append_rows(tx: &Tx<'_>, mut due: Vec<Difference>) -> Result<()> {
    due.sort_by_key(|difference| !difference.after.is_empty());
    let others = if due.len() > MAX_ROWS {
        due.split_off(MAX_ROWS - 1)
    } else {
        Vec::new()
    };
    due.into_iter()
        .try_for_each(|difference| append_row(tx, difference))?;
    if others.is_empty() {
        return Ok(());
    }
    let unhosted = others
        .iter()
        .filter(|difference| difference.after.is_empty())
        .count();
    let mut names = Vec::new();
    for difference in others.iter().take(MAX_NAMED) {
        names.extend(
            tx.find(&Id::<Service>::from_text(difference.service.as_str()))?
                .map(|service| service.spec.name.clone()),
        );
    }
    let action = if unhosted > 0 {
        Action::Disconnect
    } else {
        Action::Connect
    };
    let after = members([
        ("services", json!(others.len())),
        ("unhosted", json!(unhosted)),
        ("names", json!(names)),
    ]);
    tx.append_history(HistoryEntry {
        after: Some(after),
        ..HistoryEntry::to::<Service>(action, "")
    })
}

fn append_row(tx: &Tx<'_>, difference: Difference) -> Result<()> {
    let Difference {
        service,
        before,
        after,
        at,
        absence,
    } = difference;
    // The row about its deletion is enough.
    let Some(found) = tx.find(&Id::<Service>::from_text(service.as_str()))? else {
        return Ok(());
    };
    let action = if before.is_subset(&after) {
        Action::Connect
    } else {
        Action::Disconnect
    };
    let [was, is] = [&before, &after].map(|hosts| {
        hosts
            .iter()
            .take(MAX_NAMED)
            .map(|host| named(tx, host))
            .collect::<Result<Vec<_>>>()
    });
    let before = members([("hosts", Json::from(was?))]);
    let at = if let Some(Absence::Since(since)) = absence {
        since
    } else {
        at
    };
    let mut shown = members([("hosts", is?.into()), ("at", json!(at))]);
    if after.len() > MAX_NAMED {
        shown.insert("hostCount".into(), after.len().into());
    }
    if absence == Some(Absence::BeforeStart) {
        shown.insert("orEarlier".into(), true.into());
    }
    let entry = HistoryEntry::to::<Service>(action, &service);
    tx.append_history(HistoryEntry {
        name: Some(found.spec.name.clone()),
        before: Some(before),
        after: Some(shown),
        ..entry
    })
}

/// A host with its name.
fn named(tx: &Tx<'_>, host: &HostKey) -> Result<Json> {
    match host {
        HostKey::Identity(id) => {
            let name = tx
                .find(&Id::<Identity>::from_text(&**id))?
                .map(|identity| identity.spec.name.clone());
            Ok(json!({ "identity": **id, "name": name }))
        }
        HostKey::Terminator(id) => {
            let terminator = tx.find(&Id::<Terminator>::from_text(&**id))?;
            let router = terminator
                .and_then(|terminator| terminator.spec.find_router(tx).ok())
                .map(|(name, _)| name);
            Ok(json!({ "terminator": **id, "router": router }))
        }
    }
}

fn members<const N: usize>(members: [(&str, Json); N]) -> Map<String, Json> {
    members
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
