//! How much a member holds that requests fill as they like: tags, application data, role attributes.

use crate::{
    config::Members,
    error::{Error, Result},
};

/// What a map or a list holds, or may hold at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub entries: usize,
    /// Of a map: its JSON text. Of a list of texts: the texts themselves.
    pub bytes: usize,
}

impl Amount {
    /// The amount of a list of texts.
    pub fn of_texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Self {
        texts.into_iter().fold(Self::default(), |sum, text| Self { entries: sum.entries + 1, bytes: sum.bytes + text.as_ref().len() })
    }

    /// Refuses a member that holds more than `most`, unless it held as much `before`: a record that was stored under a higher limit can
    /// still be edited.
    ///
    /// # Errors
    /// [`Error::Invalid`] that names the member.
    pub fn check(self, member: &str, before: Self, most: &Most) -> Result<()> {
        let Most { amount, entries_key, bytes_key } = most;
        for (given, before, most, unit, key) in [
            (self.entries, before.entries, amount.entries, "entries", entries_key),
            (self.bytes, before.bytes, amount.bytes, "bytes", bytes_key),
        ] {
            if given > most.max(before) {
                return Err(Error::invalid(member, format!("may have at most {most} {unit} ({key})"), format!("{given} {unit}")));
            }
        }
        Ok(())
    }
}

/// The most that a member may hold, and the keys of the configuration that say so.
#[derive(Debug, Clone, Copy)]
pub struct Most {
    pub amount: Amount,
    pub entries_key: &'static str,
    pub bytes_key: &'static str,
}

impl Most {
    /// What administrators may put into a member.
    pub fn of(&Members { entries, bytes, .. }: &Members) -> Self {
        Self { amount: Amount { entries, bytes }, entries_key: "members.entries", bytes_key: "members.bytes" }
    }

    /// What whoever uses services may put into one.
    pub fn of_clients(&Members { client_entries: entries, client_bytes: bytes, .. }: &Members) -> Self {
        Self { amount: Amount { entries, bytes }, entries_key: "members.client-entries", bytes_key: "members.client-bytes" }
    }
}
