//! Lists of data in memory: filtered, sorted and paged like lists of records.

use crate::{
    error::Result,
    http::{answer::Page, envelope::Pagination, listing::Listing},
    query::{self, MAX_LIMIT, Subject, Symbol, Type, Value, Vocabulary, Window},
};

/// A filterable name, its type, and its value in an entry.
pub type ColumnName<T> = (&'static str, Type, fn(&T) -> Value<'_>);

/// An entry of such a list.
pub trait Live: Sized + 'static {
    /// The filterable names. Without a sort, a list is ordered by the first one.
    const WORDS: &'static [ColumnName<Self>];
}

struct Words<T: Live>(std::marker::PhantomData<T>);

impl<T: Live> Vocabulary for Words<T> {
    fn resolve(&self, name: &str) -> Option<(Symbol, Type)> {
        let field = T::WORDS.iter().position(|(known, ..)| *known == name)?;
        T::WORDS.get(field).map(|(_, of, _)| (Symbol { field, path: None }, *of))
    }

    fn linked(&self, _: &Symbol) -> Option<&dyn Vocabulary> {
        None
    }
}

struct Entry<'a, T>(&'a T);

impl<T: Live> Subject for Entry<'_, T> {
    fn value(&self, symbol: &Symbol) -> Value<'_> {
        T::WORDS.get(symbol.field).map_or(Value::Null, |(_, _, value)| value(self.0))
    }

    fn linked(&self, _: &Symbol, _: &mut dyn FnMut(&dyn Subject)) {}
}

/// The listed part of the entries, always limited.
///
/// # Errors
/// The filter or the sort is invalid.
pub fn page<T: Live>(mut entries: Vec<T>, listing: &Listing) -> Result<Page<T>> {
    let (query, window) = listing.over(&Words::<T>(std::marker::PhantomData))?;
    let window = Window { limit: window.limit.or(MAX_LIMIT.try_into().ok()), ..window };
    entries.retain(|entry| query.predicate.matches(&Entry(entry)));
    entries.sort_by(|a, b| {
        let by = |sort: &query::Sort| {
            let order = query::compare(&Entry(a).value(&sort.symbol), &Entry(b).value(&sort.symbol));
            if sort.descending { order.reverse() } else { order }
        };
        let first = Symbol { field: 0, path: None };
        let asked = query.sort.iter().map(by).find(|order| order.is_ne());
        asked.unwrap_or_else(|| query::compare(&Entry(a).value(&first), &Entry(b).value(&first)))
    });
    let total = entries.len() as u64;
    let data = entries.into_iter().skip(window.offset).take(window.limit.unwrap_or(usize::MAX)).collect();
    Ok(Page { data, pagination: Pagination::of(window, total), fields: Some(T::WORDS.iter().map(|(name, ..)| *name).collect()) })
}

/// A number as a filter value.
pub fn number(number: u64) -> Value<'static> {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}
