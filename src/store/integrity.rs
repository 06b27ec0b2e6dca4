//! Whether the file is sound, and mending what has one right answer. Works while everything else goes on.
//!
//! What is looked at: each record can be read; the index has the entries that [`index::entries`](super::entries) says and no others; what a
//! record refers to exists; no two records share what must be unique; each row of the history is chained to the one before. What is mended: the index, from the records; a reference to
//! nothing, as if its target were deleted just now. What is not: a record that cannot be read, a value that two records share, a reference that
//! would not have let its target go, a row of the history. A description names records and fields and never a value, for some values are secrets.

use std::{
    collections::HashSet,
    ops::{Bound, ControlFlow},
    time::Duration,
};

use super::{
    Event, Read, Store, Tx, Watch, delete,
    index::{self, IndexEntry},
    read::text,
    registry::{Entry, Rule},
    tables::{Keys, Table},
    turn::Turn,
};
use crate::{
    entity::Facts,
    error::{Error, Result},
};

/// At most this many findings are told.
const TOLD: usize = 1000;
/// At most this many are collected to be mended, before the rest is looked for again.
const COLLECTED: usize = 1 << 17;
/// Findings mended in one transaction.
const BATCH: usize = 256;
/// Before another try, when too many writes wait.
const BUSY: Duration = Duration::from_millis(100);
const ALL: Keys<'static> = (Bound::Unbounded, Bound::Unbounded);

/// Something that is wrong, or was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub description: String,
    /// Whether it has been mended.
    pub fixed: bool,
}

/// What a run found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub findings: Vec<Finding>,
    /// There are more than these.
    pub more: bool,
}

impl Store {
    /// Looks for everything that is wrong, on this thread, in the file as it is now.
    ///
    /// # Errors
    /// The file cannot be read, or the watcher stopped it.
    pub fn check(&self, watch: &Watch) -> Result<Report> {
        let faults = self.inspect(watch, TOLD + 1)?;
        let mut report = Report::default();
        report.tell(faults.into_iter().map(|fault| (fault.description, false)));
        Ok(report)
    }

    /// The same, and mends what has one right answer. The index first, for references are followed by it.
    ///
    /// # Errors
    /// The file cannot be read or written, or the watcher stopped it; what was mended until then stays so.
    pub fn repair(&self, watch: &Watch) -> Result<Report> {
        let mut report = Report::default();
        loop {
            let faults = self.inspect(watch, COLLECTED)?;
            let of_index = faults.iter().any(|fault| matches!(fault.remedy, Remedy::Entries { .. } | Remedy::Row(_)));
            let now = |fault: &Fault| match fault.remedy {
                Remedy::None => false,
                Remedy::Entries { .. } | Remedy::Row(_) => true,
                Remedy::Target { .. } => !of_index,
            };
            let (wanted, others): (Vec<Fault>, Vec<Fault>) = faults.into_iter().partition(now);
            let (mended, left) = self.mend(wanted, watch)?;
            let is_over = mended.is_empty();
            report.tell(mended.into_iter().map(|fault| (fault.description, true)));
            if is_over {
                report.tell(left.into_iter().chain(others).map(|fault| (fault.description, false)));
                return Ok(report);
            }
        }
    }

    fn inspect(&self, watch: &Watch, most: usize) -> Result<Vec<Fault>> {
        self.0.core.read(Some(&Turn::free(&watch.stop)), |read| {
            let mut inspection = Inspection { read, watch, most, faults: Vec::new() };
            inspection.run()?;
            Ok(inspection.faults)
        })
    }

    /// Those that are mended now, and those that are not.
    fn mend(&self, faults: Vec<Fault>, watch: &Watch) -> Result<(Vec<Fault>, Vec<Fault>)> {
        let (mut mended, mut left) = (Vec::new(), Vec::new());
        let mut faults = faults.into_iter();
        loop {
            let batch: Vec<Fault> = faults.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return Ok((mended, left));
            }
            let remedies = batch.iter().map(|fault| fault.remedy.clone()).collect();
            for (fault, fixed) in batch.into_iter().zip(self.apply(remedies, watch)?) {
                if fixed { mended.push(fault) } else { left.push(fault) }
            }
        }
    }

    /// Applies remedies in one transaction, after those who wait for theirs already. Says which faults are gone.
    fn apply(&self, remedies: Vec<Remedy>, watch: &Watch) -> Result<Vec<bool>> {
        loop {
            watch.go_on()?;
            let remedies = remedies.clone();
            match self.write_blocking(move |tx| remedies.iter().map(|remedy| remedy.apply(tx)).collect()) {
                Err(Error::Busy { .. }) => std::thread::sleep(BUSY),
                done => return done,
            }
        }
    }
}

impl Report {
    fn tell(&mut self, findings: impl Iterator<Item = (String, bool)>) {
        for (description, fixed) in findings {
            if self.findings.len() == TOLD {
                self.more = true;
                return;
            }
            self.findings.push(Finding { description, fixed });
        }
    }
}

/// Something that is wrong.
struct Fault {
    description: String,
    remedy: Remedy,
}

/// What would set it right.
#[derive(Clone)]
enum Remedy {
    /// There is not one right answer.
    None,
    /// The index is to have the entries of this record.
    Entries { place: usize, id: String },
    /// This row of the index is to go.
    Row(Vec<u8>),
    /// What this record refers to and is not there counts as deleted.
    Target { place: usize, id: String },
}

/// One look at everything.
struct Inspection<'i> {
    read: &'i Read<'i>,
    watch: &'i Watch,
    most: usize,
    faults: Vec<Fault>,
}

impl Inspection<'_> {
    fn run(&mut self) -> Result<()> {
        let kinds = self.read.core.registry.entries();
        let tables = (0..kinds.len()).map(Table::Records).chain([Table::Index, Table::History]);
        let total: u64 = tables.map(|table| self.read.rows.len(table)).sum::<Result<u64>>()?;
        self.watch.begin(total);
        let read = self.read;
        for (place, entry) in kinds.iter().enumerate() {
            read.scan(Table::Records(place), ALL, &mut |id, bytes| {
                self.record(place, entry, id, bytes)?;
                self.next()
            })?;
        }
        read.scan(Table::Index, ALL, &mut |key, row| {
            self.row(key, row)?;
            self.next()
        })?;
        read.follow_history(&mut |fault, _| {
            fault.into_iter().for_each(|fault| self.tell(Remedy::None, fault));
            self.next()
        })
    }

    fn next(&mut self) -> Result<ControlFlow<()>> {
        self.watch.step()?;
        Ok(if self.faults.len() < self.most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    }

    fn tell(&mut self, remedy: Remedy, description: String) {
        self.faults.push(Fault { description, remedy });
    }

    /// One stored record: itself, its entries in the index, what it refers to.
    fn record(&mut self, place: usize, entry: &Entry, id: &[u8], bytes: &[u8]) -> Result<()> {
        let kind = entry.kind.name;
        let Ok(id) = text(id) else {
            self.tell(Remedy::None, format!("a {kind} has an id that is no text"));
            return Ok(());
        };
        let (entries, targets) = match ((entry.entries)(id, bytes), (entry.targets)(id, bytes)) {
            (Ok(entries), Ok(targets)) => (entries, targets),
            (Err(reason), _) | (_, Err(reason)) => {
                self.tell(Remedy::None, reason.to_string());
                return Ok(());
            }
        };
        for own in &entries {
            let present = self.read.bytes(Table::Index, &own.key)?.as_ref() == Some(&own.row);
            match holder(self.read, entry, place, id, own)? {
                Some(other) if !present || other.as_str() < id => {
                    self.tell(Remedy::None, format!("the {kind} {id} has the same {} as {other}", own.field));
                }
                None if !present => {
                    self.tell(Remedy::Entries { place, id: id.into() }, format!("the index of {} lacks the {kind} {id}", own.field));
                }
                _ => {}
            }
        }
        for target in targets {
            if !self.read.exists(target.kind, &target.id)? && Facts::ended(self.read, entry.kind, target.field, &target.id)? == 0 {
                let held = rules(entry, target.field, target.kind).any(|rule| rule == Rule::Restrict);
                let remedy = if held { Remedy::None } else { Remedy::Target { place, id: id.into() } };
                let description =
                    format!("the {kind} {id} names as {} the {} {}, which is not there", target.field, target.kind.name, target.id);
                self.tell(remedy, description);
            }
        }
        Ok(())
    }

    /// One row of the index.
    fn row(&mut self, key: &[u8], row: &[u8]) -> Result<()> {
        match Owner::of(self.read, key, row)? {
            Owner::Record => {}
            Owner::OtherRelease(kind) => self.tell(Remedy::None, format!("the index has rows of {kind}, a kind unknown to this release")),
            Owner::Nobody(description) => self.tell(Remedy::Row(key.to_vec()), description),
        }
        Ok(())
    }
}

/// Whom a row of the index belongs to.
enum Owner {
    /// A record that has the value, or one that cannot be read.
    Record,
    OtherRelease(String),
    /// Nobody, and how that is to be told.
    Nobody(String),
}

impl Owner {
    fn of(read: &Read<'_>, key: &[u8], row: &[u8]) -> Result<Self> {
        let Some((kind, field, id)) = index::parts(key, row) else { return Ok(Self::Nobody("a row of the index cannot be read".into())) };
        let entries = read.core.registry.entries().iter().enumerate();
        let Some((place, entry)) = entries.into_iter().find(|(_, entry)| entry.kind.name == kind) else {
            return Ok(Self::OtherRelease(kind.into()));
        };
        let Some(bytes) = read.bytes(Table::Records(place), id.as_bytes())? else {
            return Ok(Self::Nobody(format!("the index of {field} has the {kind} {id}, which is not there")));
        };
        let owns = (entry.entries)(id, &bytes).map_or(true, |entries| entries.iter().any(|own| own.key == key));
        if owns { Ok(Self::Record) } else { Ok(Self::Nobody(format!("the index of {field} has a value that the {kind} {id} has not"))) }
    }
}

/// Another record that has, by itself and not only by the index, what must be unique.
fn holder(read: &Read<'_>, entry: &Entry, place: usize, id: &str, own: &IndexEntry) -> Result<Option<String>> {
    let Some(prefix) = own.key.get(..own.prefix).filter(|_| own.unique) else { return Ok(None) };
    let end = index::after(prefix);
    let mut others = Vec::new();
    read.scan(Table::Index, (Bound::Included(prefix), Bound::Excluded(&end)), &mut |key, _| {
        let other = key.get(prefix.len()..).and_then(|id| text(id).ok()).filter(|other| *other != id);
        others.extend(other.map(|other| (other.to_owned(), key.to_vec())));
        Ok(ControlFlow::Continue(()))
    })?;
    for (other, key) in others {
        let bytes = read.bytes(Table::Records(place), other.as_bytes())?;
        let has = |bytes: Vec<u8>| (entry.entries)(&other, &bytes).is_ok_and(|entries| entries.iter().any(|entry| entry.key == key));
        if bytes.is_some_and(has) {
            return Ok(Some(other));
        }
    }
    Ok(None)
}

/// What the references of a kind say for a field and the kind it leads to.
fn rules(entry: &Entry, field: &'static str, to: crate::entity::Kind) -> impl Iterator<Item = Rule> {
    (entry.edges)().into_iter().filter(move |edge| edge.field == field && edge.to == to).map(|edge| edge.rule)
}

impl Remedy {
    /// Applies it, if the fault is still there. Says whether it is gone; if it cannot be mended nothing is changed.
    fn apply(&self, tx: &Tx<'_>) -> Result<bool> {
        let done = tx.whole(|| match self {
            Self::None => Err(Error::Internal("there is not one right answer".into())),
            Self::Entries { place, id } => write_entries(tx, *place, id),
            Self::Row(key) => drop_row(tx, key),
            Self::Target { place, id } => forget_targets(tx, *place, id),
        });
        match done {
            Ok(()) => Ok(true),
            Err(Error::Storage(reason)) => Err(Error::Storage(reason)),
            Err(_) => Ok(false),
        }
    }
}

fn write_entries(tx: &Tx<'_>, place: usize, id: &str) -> Result<()> {
    let entry = tx.core.registry.entry(place)?;
    let Some(bytes) = tx.bytes(Table::Records(place), id.as_bytes())? else { return Ok(()) };
    for own in (entry.entries)(id, &bytes)? {
        let missing = tx.bytes(Table::Index, &own.key)?.as_ref() != Some(&own.row);
        if missing && holder(tx, entry, place, id, &own)?.is_none() {
            tx.rows.insert(Table::Index, &own.key, &own.row)?;
            tx.events.borrow_mut().extend(own.key.get(..own.prefix).map(|prefix| Event::mended(entry.kind, id, prefix)));
        }
    }
    Ok(())
}

fn drop_row(tx: &Tx<'_>, key: &[u8]) -> Result<()> {
    let Some(row) = tx.bytes(Table::Index, key)? else { return Ok(()) };
    if let Owner::Nobody(_) = Owner::of(tx, key, &row)? {
        tx.rows.remove(Table::Index, key)?;
        let known = index::parts(key, &row).and_then(|(kind, _, id)| {
            let kind = tx.core.registry.entries().iter().map(|entry| entry.kind).find(|known| known.name == kind)?;
            Some(Event::mended(kind, id, key.get(..key.len() - id.len())?))
        });
        tx.events.borrow_mut().extend(known);
    }
    Ok(())
}

fn forget_targets(tx: &Tx<'_>, place: usize, id: &str) -> Result<()> {
    let entry = tx.core.registry.entry(place)?;
    let mut cleared = HashSet::new();
    loop {
        let Some(bytes) = tx.bytes(Table::Records(place), id.as_bytes())? else { return Ok(()) };
        let mut gone = None;
        for target in (entry.targets)(id, &bytes)? {
            if !tx.exists(target.kind, &target.id)? {
                gone = Some(target);
                break;
            }
        }
        let Some(target) = gone else { return Ok(()) };
        if rules(entry, target.field, target.kind).any(|rule| rule == Rule::Cascade) {
            return delete::delete(tx, entry.kind, id);
        }
        (entry.clear)(tx, id, target.kind, &target.id)?;
        if !cleared.insert(target.id) {
            return Err(Error::Internal("the record does not forget what is gone".into()));
        }
    }
}
