//! What the language asks of those who use it: which names there are, and which values they have.

use super::{Type, Value};

/// A resolved name: what a [`Subject`] is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// Index into the kind's list of fields.
    pub field: usize,
    /// The rest behind the name of a map: `a.b` of `tags.a.b`.
    pub path: Option<Box<str>>,
}

/// The names that may be used in queries over one kind.
pub trait Vocabulary {
    /// `None`: unknown. Names are case-sensitive and come whole, dots included; a map itself is not a name, its members are.
    fn resolve(&self, name: &str) -> Option<(Symbol, Type)>;

    /// The same for a name that records are ordered by. Nothing can be read out of an order alone, so it may know more.
    fn order(&self, name: &str) -> Option<(Symbol, Type)> {
        self.resolve(name)
    }

    /// The names of the kind that the ids in a set refer to; `None` if they refer to nothing.
    fn linked(&self, set: &Symbol) -> Option<&dyn Vocabulary>;
}

/// One record, seen through the symbols of its kind's [`Vocabulary`].
pub trait Subject {
    fn value(&self, symbol: &Symbol) -> Value<'_>;

    /// Shows every record that the ids in `set` refer to. Only asked for sets that [`Vocabulary::linked`] knows.
    fn linked(&self, set: &Symbol, visit: &mut dyn FnMut(&dyn Subject));
}
