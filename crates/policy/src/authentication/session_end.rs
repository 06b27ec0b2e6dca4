//! The end of API sessions: log-out, and sessions that are idle for too long. Both delete the
//! record. An idle session is rejected before its record is deleted (`sessions.rs`).
//!
//! Other ends: an administrator deletes a session like any other record (`rest/src/crud.rs`); a
//! session ends with its identity, authenticator or CA by references
//! (`entity/kinds/api_session.rs`), when its identity is disabled (`change/identity.rs`), when a
//! password is set (`change/authenticator.rs`), and when the external signer that opened it is
//! disabled or deleted (`change/external_jwt_signer.rs`).
//!
//! A service session ends with its API session, when its owner or an administrator deletes it
//! (`DELETE /sessions/{id}`, `rest/src/api/common/session.rs`), and when its right is lost
//! (`posture/session_review.rs`).
//!
//! After the commit, the entry in memory is removed (`sessions.rs`), channels and circuits without
//! a right are ended (`network/review.rs` of the crate `fabric`), and the connected routers are told which sessions
//! ended (`control_channel/sync.rs` there), so that they close the channels of SDKs.

use model::{
    entity::{ApiSession, Id},
    error::Result,
};

use super::Sessions;
use crate::change::Changes;

/// Ends the session of a caller at its request.
///
/// # Errors
/// The session does not exist, or the file cannot be written.
pub async fn log_out(changes: &Changes, session: Id<ApiSession>) -> Result<()> {
    changes.run(move |change| change.delete(&session)).await
}

/// Ends the sessions that were idle for longer than the timeout, `batch` of them in one
/// transaction. Blocks the thread.
///
/// # Errors
/// The file cannot be read or written. Sessions of earlier batches stay deleted.
pub fn end_idle(sessions: &Sessions, changes: &Changes, batch: usize) -> Result<()> {
    for over in sessions.over().chunks(batch) {
        let over = over.to_vec();
        let gone = changes.run_blocking(move |change| {
            let mut gone = Vec::new();
            for id in over {
                match change.read().find_readable(&id)? {
                    Some(session) => change.delete_record(session)?,
                    None => gone.push(id),
                }
            }
            Ok(gone)
        })?;
        // Without a record, only the entry in memory is left.
        gone.iter().for_each(|id| sessions.forget(id.as_str()));
    }
    Ok(())
}
