//! The rows as a job would leave them: those of the file at one moment, overlaid with the job's
//! writes, which stay in memory and are dropped with this. The writer is not involved, so that no
//! write waits for a preview.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    iter::successors,
    ops::{
        Bound::{Excluded, Included, Unbounded},
        ControlFlow::{Break, Continue},
    },
};

use super::tables::{ALL, Keys, RowCallback, Rows, RowsMut, Table, Visit};
use crate::list::scan_limit::ScanPermit;
use model::error::Result;

/// The new value of a row; `None` if it is removed.
type Change = Option<Vec<u8>>;

/// The rows of the file, and the changes over them.
pub(crate) struct DryRun<'r> {
    below: &'r dyn Rows,
    /// Rows written are counted like rows read.
    permit: Option<&'r ScanPermit<'r>>,
    changes: RefCell<HashMap<Table, BTreeMap<Vec<u8>, Change>>>,
    /// The changes in the order written.
    log: RefCell<Vec<Undo>>,
}

struct Undo {
    table: Table,
    key: Vec<u8>,
    /// The change that this one replaced, if there was one.
    before: Option<Change>,
}

/// The direction of a scan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

impl Way {
    fn comes_first(self, one: &[u8], other: &[u8]) -> bool {
        if self == Self::Up {
            one < other
        } else {
            one > other
        }
    }

    /// The part of a range after this key in the direction of the scan.
    fn behind<'k>(self, key: &'k [u8], (start, end): Keys<'k>) -> Keys<'k> {
        if self == Self::Up {
            (Excluded(key), end)
        } else {
            (start, Excluded(key))
        }
    }
}

impl<'r> DryRun<'r> {
    /// No changes yet.
    pub(crate) fn on(below: &'r dyn Rows, permit: Option<&'r ScanPermit<'r>>) -> Self {
        Self {
            below,
            permit,
            changes: RefCell::default(),
            log: RefCell::default(),
        }
    }

    fn change(&self, table: Table, key: &[u8], change: Change) -> Result<()> {
        self.permit.map_or(Ok(()), ScanPermit::step)?;
        let before = self
            .changes
            .borrow_mut()
            .entry(table)
            .or_default()
            .insert(key.to_vec(), change);
        self.log.borrow_mut().push(Undo {
            table,
            key: key.to_vec(),
            before,
        });
        Ok(())
    }

    /// The next change in a range.
    fn next(&self, table: Table, keys: Keys<'_>, way: Way) -> Option<(Vec<u8>, Change)> {
        if is_empty(keys) {
            return None;
        }
        let changes = self.changes.borrow();
        let mut among = changes.get(&table)?.range::<[u8], _>(keys);
        let next = if way == Way::Up {
            among.next()
        } else {
            among.next_back()
        };
        next.map(|(key, change)| (key.clone(), change.clone()))
    }

    fn show(&self, table: Table, keys: Keys<'_>, way: Way, visit: Visit<'_>) -> Result<()> {
        // The changes are read one at a time, because the visitor may write others.
        let changes = successors(self.next(table, keys, way), |(key, _)| {
            self.next(table, way.behind(key, keys), way)
        });
        let mut changes = changes.peekable();
        let mut flow = Continue(());
        let mut merged = |key: &[u8], value: &[u8]| {
            while let Some((changed, change)) =
                changes.next_if(|(changed, _)| way.comes_first(changed, key))
            {
                flow = change.map_or(Ok(Continue(())), |row| visit(&changed, &row))?;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
            flow = match changes.next_if(|(changed, _)| changed == key) {
                Some((_, change)) => change.map_or(Ok(Continue(())), |row| visit(key, &row))?,
                None => visit(key, value)?,
            };
            Ok(flow)
        };
        match way {
            Way::Up => self.below.scan(table, keys, &mut merged)?,
            Way::Down => self.below.scan_back(table, keys, &mut merged)?,
        }
        for (key, change) in changes {
            if flow.is_break() {
                break;
            }
            flow = change.map_or(Ok(Continue(())), |row| visit(&key, &row))?;
        }
        Ok(())
    }
}

/// Whether a range is empty; `BTreeMap::range` panics on some empty ranges.
fn is_empty(keys: Keys<'_>) -> bool {
    match keys {
        (Unbounded, _) | (_, Unbounded) => false,
        (Included(start), Included(end)) => start > end,
        (Included(start) | Excluded(start), Included(end) | Excluded(end)) => start >= end,
    }
}

impl Rows for DryRun<'_> {
    fn get(
        &self,
        table: Table,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let change = self
            .changes
            .borrow()
            .get(&table)
            .and_then(|changes| changes.get(key))
            .cloned();
        match change {
            Some(row) => row.map_or(Ok(false), |row| see(&row).map(|()| true)),
            None => self.below.get(table, key, see),
        }
    }

    fn scan(&self, table: Table, keys: Keys<'_>, visit: Visit<'_>) -> Result<()> {
        self.show(table, keys, Way::Up, visit)
    }

    fn scan_back(&self, table: Table, keys: Keys<'_>, visit: Visit<'_>) -> Result<()> {
        self.show(table, keys, Way::Down, visit)
    }

    fn last(&self, table: Table, see: RowCallback<'_>) -> Result<bool> {
        let mut any = false;
        self.scan_back(table, ALL, &mut |key, row| {
            any = true;
            see(key, row).map(Break)
        })?;
        Ok(any)
    }

    fn len(&self, table: Table) -> Result<u64> {
        let mut len = self.below.len(table)?;
        for (key, change) in self.changes.borrow().get(&table).into_iter().flatten() {
            match (self.below.get(table, key, &mut |_| Ok(()))?, change) {
                (true, None) => len -= 1,
                (false, Some(_)) => len += 1,
                _ => {}
            }
        }
        Ok(len)
    }
}

impl RowsMut for DryRun<'_> {
    fn insert(&self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.change(table, key, Some(value.to_vec()))
    }

    fn remove(&self, table: Table, key: &[u8]) -> Result<()> {
        self.change(table, key, None)
    }

    fn mark(&self) -> usize {
        self.log.borrow().len()
    }

    fn rollback(&self, mark: usize) -> Result<()> {
        let mut log = self.log.borrow_mut();
        let since = mark.min(log.len());
        for Undo { table, key, before } in log.drain(since..).rev() {
            let mut changes = self.changes.borrow_mut();
            let changes = changes.entry(table).or_default();
            match before {
                Some(change) => _ = changes.insert(key, change),
                None => _ = changes.remove(&key),
            }
        }
        Ok(())
    }
}
