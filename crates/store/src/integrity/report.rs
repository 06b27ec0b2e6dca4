//! The result of an integrity check.

/// The greatest number of findings reported.
pub(super) const MAX_FINDINGS: usize = 1000;

/// A fault that is there, or that was repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub description: String,
    /// Whether it was repaired.
    pub fixed: bool,
}

/// What a repair does with records that cannot be read, and with an unreadable last row of the
/// history. Nothing can be written after such a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    Stays,
    Goes,
}

/// The findings of a check or repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub findings: Vec<Finding>,
    /// Whether there are more findings than these.
    pub more: bool,
    /// Facts worth knowing that are not damage and cannot be repaired in the file.
    pub notes: Vec<String>,
}

impl Report {
    pub(super) fn add(&mut self, findings: impl Iterator<Item = (String, bool)>) {
        for (description, fixed) in findings {
            if self.findings.len() == MAX_FINDINGS {
                self.more = true;
                return;
            }
            self.findings.push(Finding { description, fixed });
        }
    }
}
