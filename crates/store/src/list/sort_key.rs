//! The order of a sorted list: the values that a record is sorted by, then its id.

use std::{
    borrow::{Borrow, Cow},
    cmp::Ordering,
};

use query::{FilterTarget, Sort, Value, compare};

/// The values that a record is sorted by, and its id.
pub(crate) struct SortKey {
    /// Each key, and whether it sorts descending.
    keys: Vec<(Value<'static>, bool)>,
    pub id: String,
}

impl SortKey {
    pub(crate) fn new(seen: &dyn FilterTarget, sort: &[Sort], id: &str) -> Self {
        Self {
            keys: sort
                .iter()
                .map(|by| (owned(seen.value(&by.symbol)), by.descending))
                .collect(),
            id: id.into(),
        }
    }

    pub(crate) fn is_after(&self, seen: &dyn FilterTarget, id: &str, sort: &[Sort]) -> bool {
        self.order_to(sort.iter().map(|by| seen.value(&by.symbol)), id)
            .is_gt()
    }

    /// The order of this record relative to one with these keys and this id.
    fn order_to<'v>(
        &self,
        keys: impl Iterator<Item = impl Borrow<Value<'v>>>,
        id: &str,
    ) -> Ordering {
        let keys = self.keys.iter().zip(keys).map(|((own, down), their)| {
            let ascending = compare(own, their.borrow());
            if *down {
                ascending.reverse()
            } else {
                ascending
            }
        });
        keys.fold(Ordering::Equal, Ordering::then)
            .then_with(|| self.id.as_str().cmp(id))
    }
}

impl Ord for SortKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order_to(other.keys.iter().map(|(key, _)| key), &other.id)
    }
}
impl PartialOrd for SortKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for SortKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for SortKey {}

fn owned(value: Value<'_>) -> Value<'static> {
    match value {
        Value::Null => Value::Null,
        Value::Bool(value) => Value::Bool(value),
        Value::Integer(value) => Value::Integer(value),
        Value::Float(value) => Value::Float(value),
        Value::Date(value) => Value::Date(value),
        Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
        Value::Set(members) => Value::Set(
            members
                .into_iter()
                .map(|member| Cow::Owned(member.into_owned()))
                .collect(),
        ),
    }
}
