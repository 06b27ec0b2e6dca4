//! The order of a list and its limits.

use super::filter_target::Symbol;

/// The limit of a list whose request names none.
pub(crate) const DEFAULT_LIMIT: i64 = 10;
/// Larger limits are lowered to this.
pub const MAX_LIMIT: i64 = 500;
/// Larger offsets are lowered to this.
pub const MAX_OFFSET: i64 = 100_000;
/// Sort fields after this many are checked, then ignored.
pub const MAX_SORT: usize = 5;

/// The limit that means "no limit", in a filter and in the query parameter.
pub(crate) const UNLIMITED: i64 = -1;

/// A field to sort by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    pub symbol: Symbol,
    pub descending: bool,
}

/// The limit that a filter asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `limit none`
    None,
    Count(i64),
}
