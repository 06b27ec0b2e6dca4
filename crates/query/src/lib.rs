//! The language of the list parameters `filter` and `sort`. A text becomes a tree, which is
//! evaluated for one record at a time; the sort fields and the window of a list belong to it.
//!
//! Not here: which kinds exist and which fields can be filtered (the caller passes a
//! [`Vocabulary`]), where records come from (a [`FilterTarget`]), indexes (a caller may use
//! [`Predicate::indexable_conditions`] to avoid reading every record), status codes.
//!
//! Start with [`Query::parse`], then `parser.rs` for the grammar, `typing.rs` for which types can
//! be compared, `predicate.rs` and `check.rs` for evaluation.
//!
//! Invariant: parsing any text returns a query or a [`FilterFault`]. A parsed query can be
//! evaluated and dropped on a small stack: names and types are checked, and nesting is at most
//! [`MAX_DEPTH`] levels.

#![warn(unreachable_pub)]

mod check;
mod fault;
mod filter_target;
mod page;
mod parse;
mod parser;
mod predicate;
mod token;
mod typing;
mod value;
mod window;

pub use fault::{FilterFault, Parameter};
pub use filter_target::{FilterTarget, Symbol, Vocabulary};
pub use page::{Limit, MAX_LIMIT, MAX_OFFSET, MAX_SORT, Sort};
pub use parse::parse_sort;
pub use parser::{MAX_DEPTH, MAX_LENGTH};
pub use predicate::Query;
pub use predicate::{IndexableCondition, Predicate};
pub use token::literal;
pub use value::{Type, Value, compare};
pub use window::Window;
