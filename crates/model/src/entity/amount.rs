//! The size of members that requests fill freely: tags, application data, role attributes.

use crate::{
    config::MemberLimits,
    error::{Error, Result},
};

/// The size of a map or a list, or a limit on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub entries: usize,
    /// Of a map: its JSON text. Of a list of texts: the texts themselves.
    pub bytes: usize,
}

impl Amount {
    /// The size of a list of texts.
    pub fn of_texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Self {
        texts.into_iter().fold(Self::default(), |sum, text| Self {
            entries: sum.entries + 1,
            bytes: sum.bytes + text.as_ref().len(),
        })
    }

    /// Rejects a member that exceeds `maximum`, unless it was as large `before`: a record stored
    /// under a higher limit can still be edited.
    ///
    /// # Errors
    /// [`Error::Invalid`] that names the member.
    pub fn check(self, member: &str, before: Self, maximum: &AmountLimit) -> Result<()> {
        let AmountLimit {
            amount,
            entries_key,
            bytes_key,
        } = maximum;
        for (given, before, maximum, unit, key) in [
            (
                self.entries,
                before.entries,
                amount.entries,
                "entries",
                entries_key,
            ),
            (self.bytes, before.bytes, amount.bytes, "bytes", bytes_key),
        ] {
            if given > maximum.max(before) {
                return Err(Error::invalid(
                    member,
                    format!("may have at most {maximum} {unit} ({key})"),
                    format!("{given} {unit}"),
                ));
            }
        }
        Ok(())
    }
}

/// The limits on a member, and the configuration keys that set them.
#[derive(Debug, Clone, Copy)]
pub struct AmountLimit {
    pub amount: Amount,
    pub(crate) entries_key: &'static str,
    pub(crate) bytes_key: &'static str,
}

impl AmountLimit {
    /// The limits for administrators.
    pub fn of(&MemberLimits { entries, bytes, .. }: &MemberLimits) -> Self {
        Self {
            amount: Amount { entries, bytes },
            entries_key: "members.entries",
            bytes_key: "members.bytes",
        }
    }

    /// The limits for clients of the client interface.
    pub fn of_clients(
        &MemberLimits {
            client_entries: entries,
            client_bytes: bytes,
            ..
        }: &MemberLimits,
    ) -> Self {
        Self {
            amount: Amount { entries, bytes },
            entries_key: "members.client-entries",
            bytes_key: "members.client-bytes",
        }
    }
}
