//! The language of the list parameters `filter` and `sort`: text becomes a tree, the tree answers yes or no for one record at a
//! time; beside it stand what a list is ordered by and which part of it is wanted.
//!
//! Not here: which kinds exist and what can be filtered (a [`Vocabulary`] says so), where records come from (a [`Subject`] is one),
//! indexes (a caller may use [`Predicate::anchors`] to avoid reading everything), status codes.
//!
//! Start with [`Query::parse`], then `parser.rs` for the grammar, `typing.rs` for what may be compared with what, `predicate.rs`
//! and `check.rs` for what it means.
//!
//! Invariant: whatever the text, parsing ends in a query or a [`Fault`], and a parsed query can be evaluated and dropped on a small
//! stack: names and types were checked, and nesting is at most [`MAX_DEPTH`] deep.

mod check;
mod fault;
mod page;
mod parser;
mod predicate;
mod subject;
mod token;
mod typing;
mod value;

pub use fault::{Fault, Parameter};
pub use page::{DEFAULT_LIMIT, Limit, MAX_LIMIT, MAX_OFFSET, MAX_SORT, Sort, Window};
pub use parser::{MAX_DEPTH, MAX_LENGTH};
pub use predicate::{Anchor, Predicate};
pub use subject::{Subject, Symbol, Vocabulary};
pub use value::{Type, Value, compare};

use parser::Parser;

/// A parsed `filter` parameter. The default matches everything.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub predicate: Predicate,
    /// At most [`MAX_SORT`]; empty if the filter does not say, then the `sort` parameter counts.
    pub sort: Vec<Sort>,
    pub skip: Option<i64>,
    pub limit: Option<Limit>,
}

impl Query {
    /// Reads the `filter` parameter; an empty one matches everything.
    pub fn parse(text: &str, words: &dyn Vocabulary) -> Result<Query, Fault> {
        if text.is_empty() {
            return Ok(Query::default());
        }
        let mut parser = Parser::new(text, words)?;
        let query = parser.query()?;
        parser.end()?;
        Ok(query)
    }
}

/// Reads the `sort` parameter: `name desc, createdAt`. Clients put `skip` and `limit` behind it too; these are read and ignored.
pub fn parse_sort(text: &str, words: &dyn Vocabulary) -> Result<Vec<Sort>, Fault> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let read = || {
        let mut parser = Parser::new(text, words)?;
        let sort = parser.fields()?;
        parser.page()?;
        parser.end()?;
        Ok(sort)
    };
    read().map_err(|fault: Fault| Fault { parameter: Parameter::Sort, ..fault })
}
