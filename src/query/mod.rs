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
mod window;

pub use fault::{Fault, Parameter};
pub use page::{DEFAULT_LIMIT, Limit, MAX_LIMIT, MAX_OFFSET, MAX_SORT, Sort};
pub use parser::{MAX_DEPTH, MAX_LENGTH, parse_sort};
pub use predicate::{Anchor, Predicate, Query};
pub use subject::{Subject, Symbol, Vocabulary};
pub use value::{Type, Value, compare};
pub use window::Window;
