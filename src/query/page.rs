//! The order of a list and its limits.

use super::subject::Symbol;

/// The limit of a list that names none.
pub const DEFAULT_LIMIT: i64 = 10;
/// Larger limits are lowered to this.
pub const MAX_LIMIT: i64 = 500;
/// Larger offsets are lowered to this.
pub const MAX_OFFSET: i64 = 100_000;
/// Sort fields beyond these are checked, then ignored.
pub const MAX_SORT: usize = 5;

/// The number that asks for no limit, in a filter as in a parameter.
pub const UNLIMITED: i64 = -1;

/// A field to sort by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    pub symbol: Symbol,
    pub descending: bool,
}

/// The limit a filter asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `limit none`
    None,
    Count(i64),
}
