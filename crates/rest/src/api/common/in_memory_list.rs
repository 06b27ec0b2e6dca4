//! Lists of objects that exist only in memory, such as circuits. They are filtered, sorted, paged
//! and sent in parts like lists of records.
//!
//! Invariant: at most one entry is in memory at a time, besides the ids and sort keys of the
//! matching entries.

use model::error::Result;
use query::{FilterTarget, Sort, Symbol, Type, Value, Vocabulary, compare};
use serde::Serialize;
use store::{Ids, Read};

use crate::{
    call::Call,
    envelope::Pagination,
    list_body::{StreamedList, joined},
    list_part::Part,
    listing::Listing,
};

/// A filterable name, its type, and the function that reads its value from an entry.
pub(crate) struct Name<T>(pub &'static str, pub Type, pub fn(&T) -> Value<'_>);

/// An entry of such a list. Without a sort the list is ordered by id.
pub(crate) trait Entry: Serialize + Sized + 'static {
    /// The filterable and sortable names.
    const NAMES: &'static [Name<Self>];

    /// The unique id.
    fn id(&self) -> &str;
}

struct Columns<T>(std::marker::PhantomData<T>);

impl<T: Entry> Vocabulary for Columns<T> {
    fn resolve(&self, name: &str) -> Option<(Symbol, Type)> {
        let (field, Name(_, of, _)) = T::NAMES
            .iter()
            .enumerate()
            .find(|(_, known)| known.0 == name)?;
        Some((Symbol { field, path: None }, *of))
    }
    fn linked(&self, _: &Symbol) -> Option<&dyn Vocabulary> {
        None
    }
}

struct Data<'e, T>(&'e T);

impl<T: Entry> FilterTarget for Data<'_, T> {
    fn value(&self, symbol: &Symbol) -> Value<'_> {
        T::NAMES
            .get(symbol.field)
            .map_or(Value::Null, |Name(_, _, value)| value(self.0))
    }
    fn linked(&self, _: &Symbol, _: &mut dyn FnMut(&dyn FilterTarget)) {}
}

/// Answers the requested part of a list. `each` passes every entry to its callback; `one` finds an
/// entry by id when it is written, `None` if it no longer exists.
///
/// # Errors
/// The filter or the sort is invalid; the errors of `each`, `one` and [`joined`].
pub(crate) async fn list<T: Entry>(
    call: &Call,
    listing: Listing,
    each: impl FnOnce(&Read<'_>, &mut dyn FnMut(T)) -> Result<()> + Send + 'static,
    one: impl Fn(&Read<'_>, &str) -> Result<Option<T>> + Send + Sync + 'static,
) -> Result<StreamedList<T>> {
    let find = move |tx: &Read<'_>| select(&listing, |found| each(tx, found));
    let write = move |tx: &Read<'_>, _, part: &mut Part<'_>| {
        while let Some(id) = part.next() {
            one(tx, id)?.map_or(Ok(()), |entry| part.add_value(&entry))?;
        }
        Ok(())
    };
    joined(
        call,
        T::NAMES.iter().map(|name| name.0).collect(),
        find,
        write,
    )
    .await
}

/// The ids of the requested entries, in the requested order.
fn select<T: Entry>(
    listing: &Listing,
    each: impl FnOnce(&mut dyn FnMut(T)) -> Result<()>,
) -> Result<(Ids, Pagination)> {
    let (query, window) = listing.over(&Columns::<T>(std::marker::PhantomData))?;
    let mut found: Vec<(Vec<Value<'static>>, String)> = Vec::new();
    each(&mut |entry: T| {
        let shown = Data(&entry);
        if query.predicate.matches(&shown) {
            found.push((
                query
                    .sort
                    .iter()
                    .map(|sort| shown.value(&sort.symbol).into_owned())
                    .collect(),
                entry.id().to_owned(),
            ));
        }
    })?;
    found.sort_by(|(one, one_id), (other, other_id)| {
        let by = |((one, other), Sort { descending, .. }): ((&Value<'_>, &Value<'_>), &Sort)| {
            let order = compare(one, other);
            if *descending { order.reverse() } else { order }
        };
        let asked = one
            .iter()
            .zip(other)
            .zip(&query.sort)
            .map(by)
            .find(|order| order.is_ne());
        asked.unwrap_or_else(|| one_id.cmp(other_id))
    });
    let mut ids = Ids::default();
    let most = window.limit.unwrap_or(usize::MAX);
    for (_, id) in found.iter().skip(window.offset).take(most) {
        ids.push(id);
    }
    Ok((ids, Pagination::of(window, found.len() as u64)))
}

/// A number as a filter value.
pub(crate) fn number(number: u64) -> Value<'static> {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use model::error::Error;

    use super::*;

    #[derive(Serialize)]
    struct Stone(&'static str, i64);

    impl Entry for Stone {
        const NAMES: &'static [Name<Self>] = &[
            Name("id", Type::Text, |stone| stone.0.into()),
            Name("weight", Type::Number, |stone| Value::Integer(stone.1)),
        ];
        fn id(&self) -> &str {
            self.0
        }
    }

    fn ids(filter: &str, limit: Option<i64>) -> (String, i64) {
        let listing = Listing {
            filter: Some(filter.into()),
            limit,
            ..Listing::default()
        };
        let stones = [Stone("c", 1), Stone("a", 2), Stone("b", 1)];
        let (ids, pagination) = select(&listing, |found| {
            stones.into_iter().for_each(found);
            Ok(())
        })
        .unwrap();
        (ids.iter().collect(), pagination.total_count)
    }

    #[test]
    fn entries_filter_sort_and_page() {
        assert_eq!(ids("", None), ("abc".into(), 3));
        assert_eq!(ids("weight = 1", None), ("bc".into(), 2));
        assert_eq!(ids("true sort by weight desc", None), ("abc".into(), 3));
        assert_eq!(ids("true sort by weight", Some(2)), ("bc".into(), 3));
        assert_eq!(ids("true skip 2", None), ("c".into(), 3));
        let unknown = Listing {
            filter: Some("colour = \"red\"".into()),
            ..Listing::default()
        };
        assert!(matches!(
            select::<Stone>(&unknown, |_| Ok(())),
            Err(Error::Filter(_))
        ));
    }
}
