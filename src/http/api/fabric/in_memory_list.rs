//! Lists of data that is not stored: filtered, sorted and paged in memory, by names of their members.

use crate::{
    error::Result,
    http::{answer::Page, envelope::Pagination, listing::Listing},
    query::{Sort, Subject, Symbol, Type, Value, Vocabulary, compare},
};

/// A filterable name, its type, and its value in an entry.
pub struct Name<T>(pub &'static str, pub Type, pub fn(&T) -> Value<'_>);

/// An entry, ordered by id by default.
pub trait Entry: Sized + 'static {
    /// The filterable names.
    const NAMES: &'static [Name<Self>];

    /// Unique among the entries.
    fn id(&self) -> &str;
}

struct Columns<T>(std::marker::PhantomData<T>);

impl<T: Entry> Vocabulary for Columns<T> {
    fn resolve(&self, name: &str) -> Option<(Symbol, Type)> {
        let (field, Name(_, of, _)) = T::NAMES.iter().enumerate().find(|(_, known)| known.0 == name)?;
        Some((Symbol { field, path: None }, *of))
    }
    fn linked(&self, _: &Symbol) -> Option<&dyn Vocabulary> {
        None
    }
}

struct Shown<'e, T>(&'e T);

impl<T: Entry> Subject for Shown<'_, T> {
    fn value(&self, symbol: &Symbol) -> Value<'_> {
        T::NAMES.get(symbol.field).map_or(Value::Null, |Name(_, _, value)| value(self.0))
    }
    fn linked(&self, _: &Symbol, _: &mut dyn FnMut(&dyn Subject)) {}
}

/// The listed part of the entries.
///
/// # Errors
/// The filter or the sort is invalid.
pub fn page<T: Entry>(entries: Vec<T>, listing: &Listing) -> Result<Page<T>> {
    let (query, window) = listing.over(&Columns::<T>(std::marker::PhantomData))?;
    let mut found: Vec<T> = entries.into_iter().filter(|entry| query.predicate.matches(&Shown(entry))).collect();
    found.sort_by(|one, other| {
        let by = |Sort { symbol, descending }: &Sort| {
            let order = compare(&Shown(one).value(symbol), &Shown(other).value(symbol));
            if *descending { order.reverse() } else { order }
        };
        query.sort.iter().map(by).find(|order| order.is_ne()).unwrap_or_else(|| one.id().cmp(other.id()))
    });
    let pagination = Pagination::of(window, found.len() as u64);
    let data = found.into_iter().skip(window.offset).take(window.limit.unwrap_or(usize::MAX)).collect();
    Ok(Page { data, pagination, fields: Some(T::NAMES.iter().map(|name| name.0).collect()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    struct Stone(&'static str, i64);

    impl Entry for Stone {
        const NAMES: &'static [Name<Self>] =
            &[Name("id", Type::Text, |stone| stone.0.into()), Name("weight", Type::Number, |stone| Value::Integer(stone.1))];
        fn id(&self) -> &str {
            self.0
        }
    }

    fn ids(filter: &str, limit: Option<i64>) -> (String, i64) {
        let listing = Listing { filter: Some(filter.into()), limit, ..Listing::default() };
        let page = page(vec![Stone("c", 1), Stone("a", 2), Stone("b", 1)], &listing).unwrap();
        (page.data.iter().map(|stone| stone.0).collect(), page.pagination.total_count)
    }

    #[test]
    fn entries_are_filtered_sorted_and_paged_by_their_names() {
        assert_eq!(ids("", None), ("abc".into(), 3));
        assert_eq!(ids("weight = 1", None), ("bc".into(), 2));
        assert_eq!(ids("true sort by weight desc", None), ("abc".into(), 3));
        assert_eq!(ids("true sort by weight", Some(2)), ("bc".into(), 3));
        assert_eq!(ids("true skip 2", None), ("c".into(), 3));
        let unknown = Listing { filter: Some("colour = \"red\"".into()), ..Listing::default() };
        assert!(matches!(page(Vec::<Stone>::new(), &unknown), Err(Error::Filter(_))));
    }
}
