//! Whether the file is sound, and mending what has one right answer. Works while everything else goes on.
//!
//! What is looked at: each record can be read and does not contradict itself; the index has the entries that
//! [`index::entries`](super::entries) says, and no others; what a record refers to exists; no
//! two records share what must be unique; each row of the history is chained to the one before. What is mended: the index, from the
//! records; a reference to nothing, as if its target were deleted just now. What is not: a record that contradicts itself, a value that two
//! records share, a reference that would not have let its target go, a row of the history. What cannot be read is deleted only if whoever
//! mends says so. A description names records and fields and never a value, for some values are secrets.
//!
//! `totals.rs` finds out in one pass whether there is anything to find; only if there is, `inspection.rs` looks at each thing, and
//! `remedy.rs` knows what would set it right.

mod inspection;
mod owner;
mod remedy;
mod report;
mod scope;
mod totals;

use std::time::Duration;

pub use inspection::Position;
pub use report::{Finding, Report, Unreadable};

use self::{
    inspection::{Fault, Inspection},
    remedy::Remedy,
};
use super::{handle::Store, list::scan_limit::ScanPermit, progress::Progress};
use crate::error::{Error, Result};
use report::TOLD;
use totals::Totals;

/// At most this many are collected to be mended, before the rest is looked for again.
const COLLECTED: usize = 1 << 17;
/// Findings mended in one transaction.
const BATCH: usize = 256;
/// Before another try, when too many writes wait.
const BUSY: Duration = Duration::from_millis(100);

impl Store {
    /// Looks for everything that is wrong, on this thread, in the file as it is now. Of what only reading the disk again shows, it tells what
    /// [`Store::reread_some`] came upon.
    ///
    /// # Errors
    /// The file cannot be read, or the watcher stopped it.
    pub fn check(&self, watch: &Progress) -> Result<Report> {
        let faults = self.inspect(watch, TOLD + 1)?;
        let mut report = Report::default();
        report.tell(faults.into_iter().map(|fault| fault.description).chain(self.lost()).map(unmended));
        Ok(report)
    }

    /// The same, and mends what has one right answer. What cannot be read goes before, if it is to go, then the index, for references are
    /// followed by it.
    ///
    /// # Errors
    /// The file cannot be read or written, or the watcher stopped it; what was mended until then stays so.
    pub fn repair(&self, unreadable: Unreadable, watch: &Progress) -> Result<Report> {
        let mut report = Report::default();
        loop {
            let faults = self.inspect(watch, COLLECTED)?;
            let turn = |fault: &Fault| fault.remedy.turn(unreadable);
            let next = faults.iter().filter_map(turn).min();
            let (wanted, others): (Vec<Fault>, Vec<Fault>) = faults.into_iter().partition(|fault| next.is_some() && turn(fault) == next);
            let (mended, left) = self.mend(wanted, watch)?;
            let is_over = mended.is_empty();
            report.tell(mended.into_iter().map(|fault| (fault.mended(), true)));
            if is_over {
                report.tell(left.into_iter().chain(others).map(|fault| fault.description).chain(self.lost()).map(unmended));
                return Ok(report);
            }
        }
    }

    /// Looks at the next rows, so many of them, from a place on, and tells what is wrong and where to go on. A table that cannot be read is
    /// a fault, and passed over.
    ///
    /// # Errors
    /// The store is closed, or the watcher stopped it.
    pub fn check_some(&self, place: &Position, rows: usize, watch: &Progress) -> Result<(Vec<String>, Option<Position>)> {
        let looked = self.core().read(Some(&ScanPermit::free(&watch.stop)), |read| Inspection::some(read, watch, place, rows));
        match looked {
            Ok((faults, next)) => Ok((faults.into_iter().map(|fault| fault.description).collect(), next)),
            Err(error) if watch.go_on().is_ok() && self.is_open() => {
                let name = place.kind(self.core().context.registry.entries()).unwrap_or("the index or the history");
                Ok((vec![format!("rows of {name} cannot be read: {error}")], Some(place.next_table())))
            }
            Err(error) => Err(error),
        }
    }

    /// Reads blocks of the file again, so many from one on, although they are in memory, and tells which are not what was written to them;
    /// and where to go on.
    pub fn reread_some(&self, from: u64, blocks: u64) -> (Vec<String>, Option<u64>) {
        let (damaged, next) = self.core().backend.reread(from, blocks);
        (damaged.into_iter().map(lost).collect(), next)
    }

    /// What such reading has found and still finds.
    fn lost(&self) -> impl Iterator<Item = String> {
        self.core().backend.lost().into_iter().map(lost)
    }

    fn inspect(&self, watch: &Progress, most: usize) -> Result<Vec<Fault>> {
        self.core().read(Some(&ScanPermit::free(&watch.stop)), |read| {
            if Totals::adds_up(read, watch)? { Ok(Vec::new()) } else { Inspection::run(read, watch, most) }
        })
    }

    /// Those that are mended now, and those that are not.
    fn mend(&self, faults: Vec<Fault>, watch: &Progress) -> Result<(Vec<Fault>, Vec<Fault>)> {
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
    fn apply(&self, remedies: Vec<Remedy>, watch: &Progress) -> Result<Vec<bool>> {
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

fn lost(at: u64) -> String {
    format!("the disk has lost what was written at byte {at} of the file")
}

fn unmended(description: String) -> (String, bool) {
    (description, false)
}
