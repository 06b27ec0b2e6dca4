//! The check of a comparison, applied to one value.

use std::cmp::Ordering;

use super::{Value, compare};

/// The right-hand side of a comparison, already typed: its literals can be compared with the left
/// side. Only `IsNull` holds for an absent value.
#[derive(Clone, Debug)]
pub(crate) enum Check {
    IsNull,
    NotNull,
    Relates(Relation, Value<'static>),
    Contains(Needle),
    Lacks(Needle),
    /// Sorted by [`compare`].
    Among(Vec<Value<'static>>),
    /// Half open: includes the first value, excludes the second.
    Between(Value<'static>, Value<'static>),
}

impl Check {
    pub(crate) fn among(mut values: Vec<Value<'static>>) -> Check {
        values.sort_by(compare);
        values.dedup();
        Check::Among(values)
    }

    pub(crate) fn holds(&self, value: &Value) -> bool {
        match self {
            Check::IsNull => matches!(value, Value::Null),
            Check::NotNull => !matches!(value, Value::Null),
            Check::Relates(relation, literal) => value
                .relate(literal)
                .is_some_and(|ordering| relation.accepts(ordering)),
            Check::Contains(needle) => value.text().is_some_and(|text| needle.lies_in(&text)),
            Check::Lacks(needle) => value.text().is_some_and(|text| !needle.lies_in(&text)),
            Check::Among(values) => {
                let place =
                    |each: &Value| value.relate(each).map_or(Ordering::Less, Ordering::reverse);
                values.binary_search_by(place).is_ok()
            }
            Check::Between(from, to) => {
                value.relate(from).is_some_and(Ordering::is_ge)
                    && value.relate(to).is_some_and(Ordering::is_lt)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Relation {
    fn accepts(self, ordering: Ordering) -> bool {
        match self {
            Relation::Equal => ordering.is_eq(),
            Relation::NotEqual => ordering.is_ne(),
            Relation::Less => ordering.is_lt(),
            Relation::AtMost => ordering.is_le(),
            Relation::Greater => ordering.is_gt(),
            Relation::AtLeast => ordering.is_ge(),
        }
    }
}

/// The text that `contains` and `icontains` search for.
#[derive(Clone, Debug)]
pub(crate) enum Needle {
    Exact(String),
    /// Lowercased once, not for every record.
    Folded(String),
}

impl Needle {
    pub(crate) fn folded(text: &str) -> Needle {
        Needle::Folded(lower(text))
    }

    fn lies_in(&self, text: &str) -> bool {
        match self {
            Needle::Exact(needle) => text.contains(needle.as_str()),
            Needle::Folded(needle) if needle.is_empty() => true,
            Needle::Folded(needle) if text.is_ascii() => text
                .as_bytes()
                .windows(needle.len())
                .any(|part| part.eq_ignore_ascii_case(needle.as_bytes())),
            Needle::Folded(needle) => lower(text).contains(needle),
        }
    }
}

/// Lowercases letter by letter: `str::to_lowercase` writes a sigma differently at the end of a
/// word, and the end of a needle need not be the end of a word.
fn lower(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}
