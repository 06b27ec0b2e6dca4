//! The records of another controller in a new data file, with their ids, in one transaction.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use model::{entity::identity::DEFAULT_AUTH_POLICY, error::Error};
use policy::change::Changes;
use serde_json::Value as Json;

use super::{
    import_job::{CREDENTIAL_OF, ImportJob, ImportSummary, Network, RecordKey},
    network_file::shipped_types,
    source::{AUTHENTICATORS, ENROLLMENTS, ImportedCredentials, text},
};
use crate::cli::failure::CommandError;

/// The maximum number of records that are left out.
const MAX_LEFT_OUT: usize = 100;
/// The maximum length of an id, in bytes.
const MAX_ID: usize = 64;
/// The maximum length of a line about a record that is left out, in characters.
const MAX_LINE: usize = 400;
/// Kinds that restrict access. Without one of their records, more would be allowed than before.
pub(super) const RESTRICTING: [&str; 1] = ["posture-checks"];

/// Imports the records. A record that breaks a rule is left out, and the whole transaction is
/// repeated without it.
///
/// # Errors
/// One line: too many records break rules, one of them restricts access, or the file cannot be
/// written.
pub(super) fn import(
    changes: &Changes,
    mut network: Network,
) -> Result<ImportSummary, CommandError> {
    let (mut left_out, mut reasons) = (BTreeSet::<RecordKey>::new(), Vec::new());
    for kind in &mut network.kinds {
        without_bad_ids(kind.path, "name", &mut kind.records, &mut reasons)?;
    }
    let ImportedCredentials {
        authenticators,
        enrollments,
        ..
    } = &mut network.credentials;
    without_bad_ids(AUTHENTICATORS, CREDENTIAL_OF, authenticators, &mut reasons)?;
    without_bad_ids(ENROLLMENTS, CREDENTIAL_OF, enrollments, &mut reasons)?;
    let network = Arc::new(network);
    let shipped = Arc::new(shipped_types()?);
    loop {
        let at = Arc::new(Mutex::new(None));
        let job = ImportJob {
            network: network.clone(),
            left_out: left_out.clone(),
            at: at.clone(),
            shipped: shipped.clone(),
        };
        let reason = match changes.run_blocking(move |change| job.run(change)) {
            Ok(mut imported) => {
                imported.left_out = reasons;
                return Ok(imported);
            }
            Err(reason) => reason,
        };
        let found = at.lock().unwrap_or_else(PoisonError::into_inner).take();
        let is_rule = !matches!(
            reason,
            Error::Storage(_) | Error::Internal(_) | Error::Damaged { .. } | Error::Busy { .. }
        );
        let Some(((kind, id), name)) = found.filter(|_| is_rule) else {
            return Err(CommandError::of(reason));
        };
        leave_out(&kind, &id, &name, &reason.to_string(), &mut reasons)?;
        if !left_out.insert((kind, id)) {
            return Err(CommandError::of(reason));
        }
    }
}

/// Removes records whose id is missing, occurs twice, or is not a valid id. `named` is the member
/// that names a record in the report.
fn without_bad_ids(
    kind: &str,
    named: &str,
    records: &mut Vec<Json>,
    reasons: &mut Vec<String>,
) -> Result<(), CommandError> {
    let mut seen = BTreeSet::new();
    let mut good = Vec::with_capacity(records.len());
    for record in records.drain(..) {
        let id = text(&record, "id");
        let is_id = (1..=MAX_ID).contains(&id.len())
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if is_id && seen.insert(id.to_owned()) {
            good.push(record);
        } else {
            leave_out(
                kind,
                "",
                text(&record, named),
                &format!("its id {id:?} is not valid, or occurs twice"),
                reasons,
            )?;
        }
    }
    *records = good;
    Ok(())
}

/// Notes a record that is left out.
///
/// # Errors
/// One line: too many records are left out, or this one restricts access.
fn leave_out(
    kind: &str,
    id: &str,
    name: &str,
    reason: &str,
    reasons: &mut Vec<String>,
) -> Result<(), CommandError> {
    let line: String = format!("{kind} {name}: {reason}")
        .chars()
        .take(MAX_LINE)
        .collect();
    must_not_restrict(kind, id, &line)?;
    if reasons.len() >= MAX_LEFT_OUT {
        return Err(CommandError::of(format!(
            "more than {MAX_LEFT_OUT} records break rules, the last is {line}; nothing was imported"
        )));
    }
    reasons.push(line);
    Ok(())
}

/// The error if the record that is left out restricts access: a posture check, or the default auth
/// policy, instead of which that of this release would hold.
fn must_not_restrict(kind: &str, id: &str, line: &str) -> Result<(), CommandError> {
    if RESTRICTING.contains(&kind) || (kind == "auth-policies" && id == DEFAULT_AUTH_POLICY) {
        return Err(CommandError::of(format!(
            "{line}; without it, more would be allowed than before: nothing was imported"
        )));
    }
    Ok(())
}
