//! The traits a caller of the language implements: names and values.

use super::{Type, Value};

/// A resolved name, which a [`FilterTarget`] is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// Index into the kind's list of fields.
    pub field: usize,
    /// For a map, the path after its name: `a.b` of `tags.a.b`.
    pub path: Option<Box<str>>,
}

/// The names that may be used in queries over one kind.
pub trait Vocabulary {
    /// `None`: unknown name. Names are case-sensitive and include their dots. A map itself is not a
    /// name; its members are.
    fn resolve(&self, name: &str) -> Option<(Symbol, Type)>;

    /// Like `resolve`, for a name to sort by. May know more names, since an order alone reveals no
    /// value.
    fn order(&self, name: &str) -> Option<(Symbol, Type)> {
        self.resolve(name)
    }

    /// The vocabulary of the kind that the ids in a set refer to; `None` if they refer to no kind.
    fn linked(&self, set: &Symbol) -> Option<&dyn Vocabulary>;
}

/// One record, read through the symbols of its kind's [`Vocabulary`].
pub trait FilterTarget {
    fn value(&self, symbol: &Symbol) -> Value<'_>;

    /// Visits every record that the ids in `set` refer to. Called only for sets that
    /// [`Vocabulary::linked`] knows.
    fn linked(&self, set: &Symbol, visit: &mut dyn FnMut(&dyn FilterTarget));
}
