//! The contract between a kind and everything that treats all kinds alike.

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    amount::Amount,
    facts::Facts,
    field::Field,
    kind::{Disk, Epoch, Kind, Stateful, Stored, unreadable},
    logged::Logged,
    record::Record,
    reference::Reference,
};
use crate::error::Result;

/// Everything that is true of a kind without knowing who asks or where it is stored.
///
/// `Self` is what a request may write (`spec`), [`Stateful::State`] what only code may.
pub trait Entity: Stateful + Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// The kind's names.
    const KIND: Kind;
    /// Names by which lists are filtered and sorted, the value each has, and which of them are indexed.
    const FIELDS: &'static [Field<Self>];
    /// Names that lists tell among those, because clients know them, and of which nothing is told: a filter that asks is refused.
    const SECRET: &'static [&'static str] = &[];
    /// Records of other kinds that this one names, and what their deletion does to it.
    const REFERENCES: &'static [Reference<Self>] = &[];
    /// Names of lists below one record, `GET /<path>/{id}/<name>`; they become its `_links`.
    const LINKS: &'static [&'static str] = &[];
    /// JSON members that only creation sets: PUT and PATCH keep the stored value.
    const FIXED: &'static [&'static str] = &[];
    /// JSON members that PUT keeps where its body leaves them out, as clients know it; elsewhere they go back to what they are when nothing
    /// is said.
    const KEPT: &'static [&'static str] = &[];
    /// JSON members that PUT demands although creation does not.
    const REQUIRED_ON_REPLACE: &'static [&'static str] = &[];
    /// Fields that requests know by another name: the field and the member. Errors speak of the member.
    const MEMBERS: &'static [(&'static str, &'static str)] = &[];
    /// Indexed fields and references by whose value very many of its records can end at once (`tombstone.rs`): what rests on a credential that
    /// goes, say. They count as gone then, and are cleared away while nobody waits.
    const ENDS_BY: &'static [&'static str] = &[];
    /// What requests call a body of the kind, where an error says that it is missing.
    const BODY: &'static str = Self::KIND.name;
    /// Whether whoever uses services makes its records, and not only administrators: what requests may put into one is much less then.
    const MADE_BY_CLIENTS: bool = false;
    /// How the spec is stored.
    const DISK: Disk = Disk::Binary;
    /// What the history tells of it.
    const LOGGED: Logged = Logged::Changes { secret: &[], quiet: &[] };
    /// The version of the stored shape. Whoever changes `Self` or `State` takes the next one, keeps the structs as they were and
    /// reads them in [`Entity::upgrade`].
    const VERSION: u8 = 1;
    /// The kind's own members on the wire.
    type View: Serialize + JsonSchema + Send + 'static;

    /// Brings a parsed spec into its normal form (blank to default, lower case, ...); runs before `check`.
    fn tidy(&mut self) {}

    /// Rules beyond the JSON schema.
    ///
    /// # Errors
    /// The first rule that is broken, naming the member.
    fn check(&self, _facts: &dyn Facts) -> Result<()> {
        Ok(())
    }

    /// How much is in each member that requests fill as they like, by its name; the configuration says how much may be. Tags are counted for
    /// every kind and are not among them.
    fn amounts(&self) -> Vec<(&'static str, Amount)> {
        Vec::new()
    }

    /// The era that a record was made in, where its like may be made again after they ended all at once.
    fn era(_record: &Record<Self>) -> Epoch {
        0
    }

    /// How a record looks on the wire.
    ///
    /// # Errors
    /// A record it needs cannot be read.
    fn view(record: &Record<Self>, facts: &dyn Facts) -> Result<Self::View>;

    /// Whether the history does not tell what the controller itself does with a record, because it comes and goes with a connection.
    fn is_unlogged(_record: &Record<Self>) -> bool {
        false
    }

    /// What contradicts itself in a stored record, if anything does, as the end of a sentence that begins with the record. No rule for
    /// requests: none of them can bring it about.
    fn flaw(_record: &Record<Self>) -> Option<&'static str> {
        None
    }

    /// Reads what an older version stored: `old` gives it as the structs of that time, `From` turns these into today's.
    ///
    /// # Errors
    /// The version is not known, or the bytes are no record of it.
    fn upgrade(version: u8, _old: &mut impl Stored) -> Result<(Self, Self::State)> {
        Err(unreadable(version))
    }

    /// Further `_links` beside `self` and [`Entity::LINKS`]: name and target.
    fn links(_record: &Record<Self>) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
