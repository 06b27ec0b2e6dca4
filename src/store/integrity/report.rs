//! What an integrity check found.

/// At most this many findings are told.
pub(super) const TOLD: usize = 1000;

/// Something that is wrong, or was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub description: String,
    /// Whether it has been mended.
    pub fixed: bool,
}

/// What becomes of records that cannot be read, and of rows at the end of the history that cannot be, behind which nothing can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    Stays,
    Goes,
}

/// What a run found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub findings: Vec<Finding>,
    /// There are more than these.
    pub more: bool,
    /// What is no damage, but should be known: nothing in the file could mend it.
    pub notes: Vec<String>,
}

impl Report {
    pub(super) fn tell(&mut self, findings: impl Iterator<Item = (String, bool)>) {
        for (description, fixed) in findings {
            if self.findings.len() == TOLD {
                self.more = true;
                return;
            }
            self.findings.push(Finding { description, fixed });
        }
    }
}
