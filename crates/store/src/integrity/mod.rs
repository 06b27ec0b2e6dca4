//! The integrity check of the file, and repair where there is exactly one right answer. Both run
//! while the store is in use.
//!
//! Checked: each record can be read and does not contradict itself; the index has exactly the
//! entries of [`index::entries`](super::entries); references lead to existing records; no two
//! records share a unique value; each row of the history is chained to the one before.
//!
//! Repaired: the index, from the records; a reference to a missing record, as if that record were
//! deleted now.
//!
//! Not repaired: a record that contradicts itself, a unique value shared by two records, a dangling
//! reference that would have prevented the deletion, a row of the history. An unreadable record and
//! an unreadable last row of the history are deleted only if the caller allows it ([`Unreadable`]).
//!
//! A description names records and fields but no values, because some values are secret.
//!
//! `totals.rs` finds in one pass whether there is any fault. Only then `inspection.rs` looks for
//! each fault, and `remedy.rs` repairs it.

mod inspection;
mod owner;
mod remedy;
mod report;
mod scope;
mod totals;

use std::{collections::HashMap, time::Duration};

pub use inspection::Position;
pub use report::Finding;
pub use report::{Report, Unreadable};

use self::{
    inspection::{Fault, Inspection},
    remedy::Remedy,
};
use super::{handle::Store, list::scan_limit::ScanPermit, progress::Progress};
use model::error::{Error, Result};
use report::MAX_FINDINGS;
use totals::Totals;

/// The greatest number of faults collected for repair in one pass.
const COLLECTED: usize = 1 << 17;
/// The number of faults repaired in one transaction.
const BATCH: usize = 256;
/// The pause before a retry when the write queue is full.
const BUSY: Duration = Duration::from_millis(100);

impl Store {
    /// Checks everything, on the calling thread, in the current state of the file. Damage that only
    /// rereading the disk shows is reported if [`Store::reread_some`] found it.
    ///
    /// # Errors
    /// The file cannot be read, or `watch` cancelled it.
    pub fn check(&self, watch: &Progress) -> Result<Report> {
        let faults = self.inspect(watch, MAX_FINDINGS + 1)?;
        let mut report = Report::default();
        report.add(
            faults
                .into_iter()
                .map(|fault| fault.description)
                .chain(self.lost())
                .map(unrepaired),
        );
        Ok(report)
    }

    /// Like [`Store::check`], and repairs the faults that have exactly one correct repair. The
    /// order is: an unreadable last row of the history and unreadable records, if they are to be
    /// deleted; the index; references. The file is checked again after each of these steps. A fault
    /// that could not be repaired is reported with the reason, and the repair continues with the
    /// others.
    ///
    /// # Errors
    /// The file cannot be read or written, or `watch` cancelled it; what was repaired until then
    /// stays so.
    pub fn repair(&self, unreadable: Unreadable, watch: &Progress) -> Result<Report> {
        let mut report = Report::default();
        let mut failed: HashMap<Remedy, Error> = HashMap::new();
        loop {
            let faults = self.inspect(watch, COLLECTED)?;
            let order = |fault: &Fault| {
                fault
                    .remedy
                    .order(unreadable)
                    .filter(|_| !failed.contains_key(&fault.remedy))
            };
            let Some(next) = faults.iter().filter_map(order).min() else {
                let left = faults.into_iter().map(|fault| fault.left(&failed));
                report.add(left.chain(self.lost()).map(unrepaired));
                return Ok(report);
            };
            let wanted = faults
                .into_iter()
                .filter(|fault| order(fault) == Some(next))
                .collect();
            let repaired = self.repair_faults(wanted, &mut failed, watch)?;
            report.add(repaired.into_iter().map(|fault| (fault.repaired(), true)));
        }
    }

    /// Checks the next `rows` rows from a position on. Returns the faults as text, and the position
    /// to continue from. A table that cannot be read is a fault and is skipped.
    ///
    /// # Errors
    /// The store is closed, or `watch` cancelled it.
    pub fn check_some(
        &self,
        place: &Position,
        rows: usize,
        watch: &Progress,
    ) -> Result<(Vec<String>, Option<Position>)> {
        let looked = self
            .core()
            .read(Some(&ScanPermit::free(&watch.stop)), |read| {
                Inspection::some(read, watch, place, rows)
            });
        match looked {
            Ok((faults, next)) => Ok((
                faults.into_iter().map(|fault| fault.description).collect(),
                next,
            )),
            Err(error) if watch.check_cancelled().is_ok() && self.is_open() => {
                let name = place
                    .kind(self.core().context.registry.entries())
                    .unwrap_or("the index or the history");
                Ok((
                    vec![format!("rows of {name} cannot be read: {error}")],
                    Some(place.next_table()),
                ))
            }
            Err(error) => Err(error),
        }
    }

    /// Reads `blocks` blocks from the disk again, beginning with block `from`, although they are
    /// cached. Returns a text for each damaged block, and the block to continue with.
    pub fn reread_some(&self, from: u64, blocks: u64) -> (Vec<String>, Option<u64>) {
        let (damaged, next) = self.core().backend.reread(from, blocks);
        (damaged.into_iter().map(lost).collect(), next)
    }

    /// The damaged blocks found by rereading that are still damaged.
    fn lost(&self) -> impl Iterator<Item = String> {
        self.core().backend.lost().into_iter().map(lost)
    }

    fn inspect(&self, watch: &Progress, limit: usize) -> Result<Vec<Fault>> {
        self.core()
            .read(Some(&ScanPermit::free(&watch.stop)), |read| {
                if Totals::adds_up(read, watch)? {
                    Ok(Vec::new())
                } else {
                    Inspection::run(read, watch, limit)
                }
            })
    }

    /// Repairs faults. Returns those repaired; the remedies that could not be applied are added to
    /// `failed`, with the reason.
    fn repair_faults(
        &self,
        faults: Vec<Fault>,
        failed: &mut HashMap<Remedy, Error>,
        watch: &Progress,
    ) -> Result<Vec<Fault>> {
        let mut repaired = Vec::new();
        let mut faults = faults.into_iter();
        loop {
            let batch: Vec<Fault> = faults.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                return Ok(repaired);
            }
            let remedies = batch.iter().map(|fault| fault.remedy.clone()).collect();
            for (fault, reason) in batch.into_iter().zip(self.apply(remedies, watch)?) {
                match reason {
                    None => repaired.push(fault),
                    Some(reason) => drop(failed.insert(fault.remedy, reason)),
                }
            }
        }
    }

    /// Applies remedies in one transaction, after the writes that already wait. Returns for each
    /// why it could not be applied, if so.
    fn apply(&self, remedies: Vec<Remedy>, watch: &Progress) -> Result<Vec<Option<Error>>> {
        loop {
            watch.check_cancelled()?;
            let remedies = remedies.clone();
            match self
                .write_blocking(move |tx| remedies.iter().map(|remedy| remedy.apply(tx)).collect())
            {
                Err(Error::Busy { .. }) => std::thread::sleep(BUSY),
                done => return done,
            }
        }
    }
}

fn lost(at: u64) -> String {
    format!("the disk no longer holds what was written at byte {at} of the file")
}

fn unrepaired(description: String) -> (String, bool) {
    (description, false)
}
