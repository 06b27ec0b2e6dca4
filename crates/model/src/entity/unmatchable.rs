//! Members of records that nothing can ever match: such a check or claim keeps everybody out,
//! whatever an endpoint reports or a certificate holds. What a request loses without a word,
//! because only the last of several entries is kept, belongs to them.
//!
//! Most of them are refused. Those that the established controller is recorded to accept are
//! accepted, named in a header of the answer, and found by doctor. Here is what a finding is; the
//! kinds find their own (`posture_matching.rs`, `external_id_claim.rs`).

use crate::error::{Error, Result};

/// A member that nothing can ever match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmatchable {
    /// The path of the member, with dots.
    pub member: String,
    /// What is wrong, as the end of a sentence whose subject is the member.
    pub reason: String,
    /// The value that was sent.
    pub value: String,
    /// Whether clients expect that it is accepted.
    pub is_accepted: bool,
}

impl Unmatchable {
    /// A member that is refused.
    pub(crate) fn refused(
        member: impl Into<String>,
        reason: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        Self {
            member: member.into(),
            reason: reason.into(),
            value: value.into(),
            is_accepted: false,
        }
    }

    /// A member that is accepted with a warning.
    pub(crate) fn accepted(
        member: impl Into<String>,
        reason: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        Self {
            is_accepted: true,
            ..Self::refused(member, reason, value)
        }
    }
}

/// Refuses what was `found` in a new record, or in a new version of a record, unless the version
/// before had it too: a record of an earlier release, or of another controller, can be changed
/// without correcting it.
///
/// # Errors
/// Something is refused.
pub fn refuse(found: Vec<Unmatchable>, before: impl FnOnce() -> Vec<Unmatchable>) -> Result<()> {
    let mut refused: Vec<Unmatchable> = found
        .into_iter()
        .filter(|found| !found.is_accepted)
        .collect();
    if !refused.is_empty() {
        let before = before();
        refused.retain(|found| !before.contains(found));
    }
    Error::all(
        refused
            .into_iter()
            .map(|found| Err(Error::invalid(found.member, found.reason, found.value))),
    )
}

/// The members that were found, for the header of an answer.
pub fn members(found: Vec<Unmatchable>) -> Vec<String> {
    let mut members: Vec<String> = found.into_iter().map(|found| found.member).collect();
    members.dedup();
    members
}
