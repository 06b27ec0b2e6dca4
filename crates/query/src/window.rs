//! The window of a list: which part is returned.

use super::{
    page::{DEFAULT_LIMIT, Limit, MAX_LIMIT, MAX_OFFSET, UNLIMITED},
    predicate::Query,
};

/// The part of all matches to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// `None`: all matches. `Some(0)`: an empty list made by [`Window::emptied`].
    pub limit: Option<usize>,
    pub offset: usize,
}

impl Window {
    /// Applies the rules of paging. `limit` and `skip` of the filter take precedence over the
    /// parameters `limit` and `offset`. A list that returns everything by default (role attributes)
    /// passes `Some(-1)` and `None`.
    pub fn new(filter: &Query, limit: Option<i64>, offset: Option<i64>) -> Window {
        let limit = match filter.limit {
            Some(Limit::None) => UNLIMITED,
            Some(Limit::Count(count)) => count,
            None => limit.unwrap_or(DEFAULT_LIMIT),
        };
        let limit = match limit {
            UNLIMITED => None,
            ..=0 => Some(DEFAULT_LIMIT),
            count => Some(count.min(MAX_LIMIT)),
        };
        let offset = filter.skip.or(offset).unwrap_or(0).clamp(0, MAX_OFFSET);
        // Both are within range, so both conversions succeed.
        Window {
            limit: limit.and_then(|limit| limit.try_into().ok()),
            offset: offset.try_into().unwrap_or(0),
        }
    }

    /// The same window without content, which still shows the offset that was asked for.
    #[must_use]
    pub fn emptied(self) -> Window {
        Window {
            limit: Some(0),
            ..self
        }
    }

    /// The limit as `meta.pagination` shows it: `i64::MAX` for no limit.
    pub fn shown_limit(&self) -> i64 {
        self.limit
            .filter(|limit| *limit > 0)
            .and_then(|limit| limit.try_into().ok())
            .unwrap_or(i64::MAX)
    }
}
