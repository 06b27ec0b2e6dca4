//! A finding of `overkeep doctor`.

use serde::Serialize;

use crate::cli::api::output::plain;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    /// What was checked.
    pub check: &'static str,
    pub healthy: bool,
    /// What was found.
    pub detail: String,
    /// What mends it; empty if nothing is wrong.
    pub mend: String,
}

impl Finding {
    pub(crate) fn good(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, healthy: true, detail: detail.into(), mend: String::new() }
    }

    pub(crate) fn bad(check: &'static str, detail: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { check, healthy: false, detail: detail.into(), mend: mend.into() }
    }

    /// The lines for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let word = if self.healthy { "ok  " } else { "FAIL" };
        let first = format!("{word} {}: {}", self.check, self.detail);
        let mend = (!self.healthy).then(|| format!("     {}", self.mend));
        // Details quote names of records, which may hold control characters.
        std::iter::once(first).chain(mend).map(|line| plain(&line)).collect()
    }
}
