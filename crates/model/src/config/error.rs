//! Why there is no configuration: one of its sources is wrong.

/// The error of a configuration, in one line: the key (or another subject), its source, and the
/// reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} ({place}): {reason}")]
pub struct ConfigError {
    pub key: String,
    /// A file, a variable, a flag, or `default`.
    pub place: String,
    pub reason: String,
}

impl ConfigError {
    /// Whether the value came from a flag, not from a variable or a file.
    pub fn is_of_a_flag(&self) -> bool {
        self.place.starts_with("--")
    }
}
