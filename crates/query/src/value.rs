//! Values, their types, and how two values compare.

use std::{borrow::Cow, cmp::Ordering, collections::BTreeSet};

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// The type of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Text,
    Bool,
    Number,
    /// A text that every record has, so that no record fits a comparison with null.
    Given,
    Date,
    /// A member of a map (`tags.x`): a value of any type.
    Any,
    /// A set of text.
    Set,
}

/// The value of a symbol in one record, or a literal.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    /// Milliseconds since 1970, UTC.
    Date(i64),
    Text(Cow<'a, str>),
    Set(Vec<Cow<'a, str>>),
}

/// The sort order: null first, false before true, text by its bytes. It is total, so sorting cannot
/// fail; values of different types are ordered by type.
pub fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Integer(a), Value::Integer(b)) | (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Set(a), Value::Set(b)) => a.cmp(b),
        _ => match (a.number(), b.number()) {
            // Integers beyond 2^53 share a float with their neighbours: the second comparison keeps
            // the order total.
            (Some((a, exact_a)), Some((b, exact_b))) => a.total_cmp(&b).then(exact_a.cmp(&exact_b)),
            _ => a.rank().cmp(&b.rank()),
        },
    }
}

impl Value<'_> {
    /// A copy that owns its text.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Integer(value) => Value::Integer(value),
            Value::Float(value) => Value::Float(value),
            Value::Date(value) => Value::Date(value),
            Value::Text(value) => Value::Text(Cow::Owned(value.into_owned())),
            Value::Set(members) => Value::Set(
                members
                    .into_iter()
                    .map(|member| Cow::Owned(member.into_owned()))
                    .collect(),
            ),
        }
    }

    /// The rank of a value's type in sort order; integers and floats share one.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Integer(_) | Value::Float(_) => 2,
            Value::Date(_) => 3,
            Value::Text(_) => 4,
            Value::Set(_) => 5,
        }
    }

    /// Compares a stored value with a literal, whose type decides how. A stored value of another
    /// type counts as absent (`None`), with two exceptions: a text literal is compared with the
    /// written form of any value, and an absent bool is false.
    pub(super) fn relate(&self, literal: &Value) -> Option<Ordering> {
        match literal {
            Value::Text(text) => self.text().map(|own| own.as_ref().cmp(text.as_ref())),
            Value::Bool(wanted) => Some(matches!(self, Value::Bool(true)).cmp(wanted)),
            _ => (self.rank() == literal.rank()).then(|| compare(self, literal)),
        }
    }

    /// The written form of a single value: numbers in plain decimal notation, dates as RFC 3339.
    pub(super) fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Value::Null | Value::Set(_) => None,
            Value::Bool(value) => Some(Cow::Borrowed(if *value { "true" } else { "false" })),
            Value::Integer(value) => Some(Cow::Owned(value.to_string())),
            Value::Float(value) => Some(Cow::Owned(value.to_string())),
            Value::Date(value) => {
                let time =
                    OffsetDateTime::from_unix_timestamp_nanos(i128::from(*value) * 1_000_000)
                        .ok()?;
                time.format(&Rfc3339).ok().map(Cow::Owned)
            }
            Value::Text(value) => Some(Cow::Borrowed(value)),
        }
    }

    /// A number as a float and its exact integer part. Minus zero becomes zero.
    fn number(&self) -> Option<(f64, i128)> {
        match self {
            Value::Integer(value) => Some((*value as f64, i128::from(*value))),
            Value::Float(value) => Some((*value + 0.0, *value as i128)),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($type:ty => |$value:ident| $into:expr;)*) => {
        $(impl<'a> From<$type> for Value<'a> { fn from($value: $type) -> Self { $into } })*
    };
}

from! {
    bool => |value| Value::Bool(value);
    i32 => |value| Value::Integer(value.into());
    i64 => |value| Value::Integer(value);
    u8 => |value| Value::Integer(value.into());
    u16 => |value| Value::Integer(value.into());
    u32 => |value| Value::Integer(value.into());
    u64 => |value| i64::try_from(value).map_or(Value::Float(value as f64), Value::Integer);
    usize => |value| i64::try_from(value).map_or(Value::Float(value as f64), Value::Integer);
    f64 => |value| Value::Float(value);
    String => |value| Value::Text(Cow::Owned(value));
    &'a str => |value| Value::Text(Cow::Borrowed(value));
    &'a String => |value| Value::Text(Cow::Borrowed(value));
    Cow<'a, str> => |value| Value::Text(value);
    &'a [String] => |value| value.iter().collect();
    &'a Vec<String> => |value| value.iter().collect();
    &'a BTreeSet<String> => |value| value.iter().collect();
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// A set of text from its members.
impl<'a, T: Into<Cow<'a, str>>> FromIterator<T> for Value<'a> {
    fn from_iter<I: IntoIterator<Item = T>>(members: I) -> Self {
        Value::Set(members.into_iter().map(Into::into).collect())
    }
}
