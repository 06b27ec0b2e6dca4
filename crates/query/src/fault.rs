//! The error in a `filter` or `sort` parameter, with symbol and position.

use std::fmt;

/// Why a `filter` or `sort` parameter is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterFault {
    pub parameter: Parameter,
    pub message: String,
    /// The wrong name or piece of text; `None` at the end of the text.
    pub symbol: Option<String>,
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
}

/// The parameter that holds the fault. A `sort by` inside a filter is part of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    Filter,
    Sort,
}

impl FilterFault {
    /// A fault at a byte offset of `text`.
    pub(super) fn at(text: &str, offset: usize, message: impl Into<String>) -> FilterFault {
        let before = text.get(..offset).unwrap_or(text);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        FilterFault {
            parameter: Parameter::Filter,
            message: message.into(),
            symbol: None,
            line: 1 + before.matches('\n').count(),
            column: 1 + before.get(start..).map_or(0, |line| line.chars().count()),
        }
    }

    pub(super) fn naming(self, symbol: &str) -> FilterFault {
        FilterFault {
            symbol: Some(symbol.to_owned()).filter(|symbol| !symbol.is_empty()),
            ..self
        }
    }
}

impl fmt::Display for FilterFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at line {}, column {}",
            self.message, self.line, self.column
        )
    }
}

impl std::error::Error for FilterFault {}
