//! The names that filter the rows of the history.

use query::{FilterTarget, Symbol, Type, Value, Vocabulary};

use super::{
    access_change::{AccessChange, Named, PairCount},
    history::HistoryRow,
};

/// A filter name: its type, and its value in a row.
type Word = (&'static str, Type, for<'r> fn(&'r HistoryRow) -> Value<'r>);

/// The names that a filter over the history may use.
const FILTER_NAMES: [Word; 28] = [
    ("sequence", Type::Number, |row| number(row.sequence)),
    ("at", Type::Date, |row| Value::Date(row.at.millis())),
    ("by.who", Type::Text, |row| row.by.who.as_str().into()),
    ("by.identity", Type::Text, |row| {
        row.by.identity.as_ref().into()
    }),
    ("by.name", Type::Text, |row| row.by.name.as_ref().into()),
    ("by.session", Type::Text, |row| {
        row.by.session.as_ref().into()
    }),
    ("by.token", Type::Text, |row| row.by.token.as_ref().into()),
    ("by.address", Type::Text, |row| {
        row.by.address.as_ref().into()
    }),
    ("action", Type::Text, |row| row.action.as_str().into()),
    ("kind", Type::Text, |row| row.kind.as_ref().into()),
    ("id", Type::Text, |row| row.id.as_str().into()),
    ("name", Type::Text, |row| row.name.as_ref().into()),
    ("change", Type::Number, |row| number(row.change())),
    ("access.first", Type::Number, |row| {
        row.of_access(|access| number(access.first))
    }),
    ("access.last", Type::Number, |row| {
        row.of_access(|access| number(access.last))
    }),
    ("access.changes", Type::Number, |row| {
        row.of_access(|access| number(access.changes))
    }),
    ("access.gained.dial", Type::Number, |row| {
        row.of_access(|access| pairs(&access.gained.dial))
    }),
    ("access.gained.bind", Type::Number, |row| {
        row.of_access(|access| pairs(&access.gained.bind))
    }),
    ("access.gained.identityRouters", Type::Number, |row| {
        row.of_access(|access| pairs(&access.gained.identity_routers))
    }),
    ("access.gained.serviceRouters", Type::Number, |row| {
        row.of_access(|access| pairs(&access.gained.service_routers))
    }),
    ("access.gained.who", Type::Set, |row| {
        row.of_access(|access| access.gained.who())
    }),
    ("access.gained.what", Type::Set, |row| {
        row.of_access(|access| access.gained.what())
    }),
    ("access.lost.dial", Type::Number, |row| {
        row.of_access(|access| pairs(&access.lost.dial))
    }),
    ("access.lost.bind", Type::Number, |row| {
        row.of_access(|access| pairs(&access.lost.bind))
    }),
    ("access.lost.identityRouters", Type::Number, |row| {
        row.of_access(|access| pairs(&access.lost.identity_routers))
    }),
    ("access.lost.serviceRouters", Type::Number, |row| {
        row.of_access(|access| pairs(&access.lost.service_routers))
    }),
    ("access.lost.who", Type::Set, |row| {
        row.of_access(|access| access.lost.who())
    }),
    ("access.lost.what", Type::Set, |row| {
        row.of_access(|access| access.lost.what())
    }),
];

fn number(number: u64) -> Value<'static> {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn pairs(count: &Option<PairCount<Named>>) -> Value<'static> {
    number(count.as_ref().map_or(0, |count| count.pairs))
}

/// The vocabulary of the history.
pub struct HistoryWords;

impl HistoryWords {
    /// Every name.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FILTER_NAMES.iter().map(|(name, ..)| *name)
    }

    /// Whether a symbol is the sequence, the only sort key of the history.
    pub fn is_sequence(symbol: &Symbol) -> bool {
        symbol.field == 0
    }
}

impl Vocabulary for HistoryWords {
    fn resolve(&self, name: &str) -> Option<(Symbol, Type)> {
        let field = FILTER_NAMES.iter().position(|(known, ..)| *known == name)?;
        FILTER_NAMES
            .get(field)
            .map(|(_, of, _)| (Symbol { field, path: None }, *of))
    }

    fn linked(&self, _: &Symbol) -> Option<&dyn Vocabulary> {
        None
    }
}

impl HistoryRow {
    fn of_access<'r>(&'r self, value: fn(&'r AccessChange) -> Value<'r>) -> Value<'r> {
        self.access.as_deref().map_or(Value::Null, value)
    }
}

impl FilterTarget for HistoryRow {
    fn value(&self, symbol: &Symbol) -> Value<'_> {
        FILTER_NAMES
            .get(symbol.field)
            .map_or(Value::Null, |(_, _, value)| value(self))
    }

    fn linked(&self, _: &Symbol, _: &mut dyn FnMut(&dyn FilterTarget)) {}
}
