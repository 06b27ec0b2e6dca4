//! When a file is sound: what the store knows of that, and that the keys and certificates in it fit together.
//!
//! What only has ended, or does not hold yet, is no damage: a file does not become worse by lying there, a snapshot can be restored years
//! later, and the next start renews what can be renewed. It is noted.

use super::upgrade;
use crate::{
    change::certificates,
    entity::Facts,
    error::Result,
    store::{Finding, Read, Report, Store, Watch},
};

/// Looks for everything that is wrong.
///
/// # Errors
/// The file cannot be read, or the watcher stopped it.
pub fn check(store: &Store, watch: &Watch) -> Result<Report> {
    with_keys(store, store.check(watch)?)
}

/// The same, and mends what has one right answer.
///
/// # Errors
/// The file cannot be read or written, or the watcher stopped it.
pub fn repair(store: &Store, watch: &Watch) -> Result<Report> {
    with_keys(store, store.repair(watch)?)
}

fn with_keys(store: &Store, mut report: Report) -> Result<Report> {
    let (faults, notes) = store.read(judge_keys)?;
    report.findings.splice(..0, faults.into_iter().map(|description| Finding { description, fixed: false }));
    report.notes = notes;
    Ok(report)
}

/// What is wrong with keys and certificates, and what is to be noted of them.
///
/// # Errors
/// The file cannot be read.
pub fn judge_keys(read: &Read<'_>) -> Result<(Vec<String>, Vec<String>)> {
    let missing =
        || upgrade::holds_a_controller(read).map(|holds| (holds.then(|| "the keys of the controller are not there".into()), None));
    let (fault, material) = match certificates::stored(read)? {
        None => missing()?,
        Some(Ok(material)) => (None, Some(material)),
        Some(Err(_)) => (Some("the keys of the controller cannot be read".into()), None),
    };
    let Some(material) = material else { return Ok((fault.into_iter().collect(), Vec::new())) };
    let said = |untimely: String| format!("{untimely}; overkeep pki status says what there is to do");
    Ok((material.faults(), material.untimely(read.now().seconds()).into_iter().map(said).collect()))
}
