//! The end of an API session: its record is deleted, and everything that rests on it follows that commit.
//!
//! Here: log-out, and sessions that were idle for too long. Administrators delete sessions as they delete every record (`http/crud.rs`), and
//! the session ends with its identity or its authenticator by references (`entity/kinds/api_session.rs`). A service session also ends when
//! its right is lost (`posture/session_review.rs`). What follows the commit: the session's entry in memory (`sessions.rs`), its channels and
//! circuits (`built_in_router/review.rs`, `control_channel/review.rs`).

use super::Sessions;
use crate::{
    change::Changes,
    entity::{ApiSession, Id},
    error::Result,
};

/// Ends the session of a caller at its request.
///
/// # Errors
/// The session is not there, or the file cannot be written.
pub(crate) async fn log_out(changes: &Changes, session: Id<ApiSession>) -> Result<()> {
    changes.run(move |change| change.delete(&session)).await
}

/// Ends the sessions that were idle for longer than the timeout, `batch` of them in one transaction. Blocks.
///
/// # Errors
/// The file cannot be read or written. Batches before the failed one are ended.
pub(crate) fn end_idle(sessions: &Sessions, changes: &Changes, batch: usize) -> Result<()> {
    for over in sessions.over().chunks(batch) {
        let over = over.to_vec();
        let gone = changes.run_blocking(move |change| {
            let mut gone = Vec::new();
            for id in over {
                match change.find_readable(&id)? {
                    Some(session) => change.delete_record(session)?,
                    None => gone.push(id),
                }
            }
            Ok(gone)
        })?;
        gone.iter().for_each(|id| sessions.forget(id.as_str()));
    }
    Ok(())
}
