//! The contract between a kind and the code that handles all kinds alike.

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    amount::Amount,
    field::Field,
    kind::{Epoch, Kind, SpecEncoding, Stateful, Stored, unreadable},
    logged::Logged,
    lookup::Lookup,
    record::Record,
    reference::Reference,
    unmatchable::Unmatchable,
};
use crate::error::Result;

/// The facts of a kind that depend on neither the caller nor the storage.
///
/// `Self` is what a request may write (`spec`), [`Stateful::State`] what only code may.
pub trait Entity: Stateful + Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// The kind's names.
    const KIND: Kind;
    /// The fields that filter and sort lists, with their values and indexes.
    const FIELDS: &'static [Field<Self>];
    /// Names that `meta.filterableFields` lists for compatibility, although their values are
    /// secret: a filter that uses one is rejected.
    const SECRET: &'static [&'static str] = &[];
    /// The records that this kind refers to, and what their deletion does to it.
    const REFERENCES: &'static [Reference<Self>] = &[];
    /// Names of lists below one record, `GET /<path>/{id}/<name>`; they become its `_links`.
    const LINKS: &'static [&'static str] = &[];
    /// JSON members that only creation sets: PUT and PATCH keep the stored value.
    const FIXED: &'static [&'static str] = &[];
    /// JSON members that PUT keeps if its body leaves them out, as clients expect; other members
    /// return to their defaults.
    const KEPT: &'static [&'static str] = &[];
    /// JSON members that PUT requires although creation does not.
    const REQUIRED_ON_REPLACE: &'static [&'static str] = &[];
    /// Fields with another name in requests: the field and the member. Errors name the member.
    const MEMBERS: &'static [(&'static str, &'static str)] = &[];
    /// Indexed fields and references by whose value very many records can be deleted at once by a
    /// tombstone (`tombstone.rs`), for example with the deletion of a credential. The records count
    /// as deleted at once and are removed later.
    const ENDS_BY: &'static [&'static str] = &[];
    /// The name of a request body of the kind, for the error that it is missing.
    const BODY: &'static str = Self::KIND.name;
    /// Whether clients of the client interface create its records, and not only administrators: the
    /// limits on members are much lower then.
    const MADE_BY_CLIENTS: bool = false;
    /// How the spec is stored.
    const ENCODING: SpecEncoding = SpecEncoding::Binary;
    /// What the history logs of the kind's records.
    const LOGGED: Logged = Logged::Changes {
        secret: &[],
        quiet: &[],
    };
    /// The version of the stored shape. A change of `Self` or `State` needs the next version; the
    /// old structs are kept and read in [`Entity::upgrade`].
    const VERSION: u8 = 1;
    /// The kind's own members in responses.
    type View: Serialize + JsonSchema + Send + 'static;

    /// Normalizes a parsed spec (empty to default, lower case, ...); runs before `check`.
    fn tidy(&mut self) {}

    /// Rules beyond the JSON schema.
    ///
    /// # Errors
    /// The first broken rule, with the member.
    fn check(&self, _facts: &dyn Lookup) -> Result<()> {
        Ok(())
    }

    /// The members that nothing can ever match.
    fn unmatchable(&self) -> Vec<Unmatchable> {
        Vec::new()
    }

    /// The sizes of members that requests fill freely, by name; the configuration limits them. Tags
    /// are counted for every kind and are not included.
    fn amounts(&self) -> Vec<(&'static str, Amount)> {
        Vec::new()
    }

    /// The epoch that a record was made in, for kinds with tombstones whose records may be made
    /// again afterwards.
    fn epoch(_record: &Record<Self>) -> Epoch {
        0
    }

    /// The response for a record.
    ///
    /// # Errors
    /// A record it needs cannot be read.
    fn view(record: &Record<Self>, lookup: &dyn Lookup) -> Result<Self::View>;

    /// Whether the history does not log what the controller itself does with a record, because the
    /// record belongs to a connection.
    fn is_unlogged(_record: &Record<Self>) -> bool {
        false
    }

    /// A contradiction in a stored record, if there is one, as the end of a sentence whose subject
    /// is the record. Requests are not checked for it, because none can cause it.
    fn flaw(_record: &Record<Self>) -> Option<&'static str> {
        None
    }

    /// Reads a record of an older version: `old` decodes it as the structs of that version, `From`
    /// converts these to the current ones.
    ///
    /// # Errors
    /// The version is unknown, or the bytes are not a record of it.
    fn upgrade(version: u8, _old: &mut impl Stored) -> Result<(Self, Self::State)> {
        Err(unreadable(version))
    }

    /// Further `_links` besides `self` and [`Entity::LINKS`]: name and target.
    fn links(_record: &Record<Self>) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
