//! Checks whether a file is sound: the store's own check, and whether the keys and certificates in
//! it fit together.
//!
//! An expired or not yet valid certificate is not damage but a note: a file does not get worse with
//! age, a snapshot may be restored years later, and the next start renews what can be renewed.

use model::{
    entity::Lookup,
    error::{Error, Result},
};
use policy::change::{self, SealedKeys, certificates};
use store::{Finding, Progress, Read, Report, Store, Unreadable};

use super::upgrade;

/// The note if the keys are sealed and there is no passphrase.
const SEALED_NOTE: &str = "the keys are sealed with a passphrase; without it (passphrase-file) they and their certificates are not checked";

/// Checks everything. If the keys are sealed and `sealed_keys` is `None`, they are not checked,
/// which is noted.
///
/// # Errors
/// The file cannot be read, or the check was cancelled through `progress`.
pub(crate) fn check(
    store: &Store,
    sealed_keys: Option<&SealedKeys>,
    progress: &Progress,
) -> Result<Report> {
    with_keys(store, sealed_keys, store.check(progress)?)
}

/// Like [`check`], and repairs the faults that have exactly one correct repair; what cannot be read
/// is deleted if `unreadable` allows it.
///
/// # Errors
/// The file cannot be read or written, or the check was cancelled through `progress`.
pub(crate) fn repair(
    store: &Store,
    sealed_keys: Option<&SealedKeys>,
    unreadable: Unreadable,
    progress: &Progress,
) -> Result<Report> {
    with_keys(store, sealed_keys, store.repair(unreadable, progress)?)
}

fn with_keys(
    store: &Store,
    sealed_keys: Option<&SealedKeys>,
    mut report: Report,
) -> Result<Report> {
    let checked = sealed_keys
        .map(|sealed_keys| store.read(|read| check_keys(read, sealed_keys)))
        .transpose()?;
    let (faults, notes) = checked.unwrap_or_else(|| (Vec::new(), vec![SEALED_NOTE.into()]));
    report.findings.splice(
        ..0,
        faults.into_iter().map(|description| Finding {
            description,
            fixed: false,
        }),
    );
    report.notes = notes;
    Ok(report)
}

/// The faults of keys and certificates, and the notes about them.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn check_keys(
    read: &Read<'_>,
    sealed_keys: &SealedKeys,
) -> Result<(Vec<String>, Vec<String>)> {
    let mut faults = Vec::new();
    let material = unless_damaged(
        certificates::stored(read, sealed_keys),
        "the keys of the controller cannot be read",
        &mut faults,
    )?;
    if material.is_none() && faults.is_empty() && upgrade::has_controller(read)? {
        faults.push("the keys of the controller are missing".to_owned());
    }
    unless_damaged(
        change::stored_seal(read, sealed_keys),
        "the key that seals secrets of records cannot be read",
        &mut faults,
    )?;
    let Some(material) = material else {
        return Ok((faults, Vec::new()));
    };
    faults.extend(material.faults());
    let note = |outside_validity: String| {
        format!("{outside_validity}; overkeep pki status says what to do")
    };
    Ok((
        faults,
        material
            .outside_validity(read.now().seconds())
            .into_iter()
            .map(note)
            .collect(),
    ))
}

/// The stored value; `None` and a fault if it is damaged.
fn unless_damaged<T>(
    stored: Result<Option<T>>,
    fault: &str,
    faults: &mut Vec<String>,
) -> Result<Option<T>> {
    match stored {
        Err(Error::Damaged { .. }) => {
            faults.push(fault.into());
            Ok(None)
        }
        other => other,
    }
}
