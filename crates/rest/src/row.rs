//! A row of a route table.

use model::error::Result;

use super::{
    body::Incoming, call::Call, handler::PendingAnswer, openapi::operation::Operation,
    permission::Permission,
};

/// Takes the arguments of a request and starts the row's function.
pub(crate) type Start = Box<dyn Fn(Call, &mut Incoming<'_>) -> Result<PendingAnswer> + Send + Sync>;

/// A row of a route table.
pub struct Row {
    pub method: &'static str,
    pub path: String,
    pub permission: Permission,
    pub operation: Operation,
    /// One sentence for people.
    pub summary: String,
    /// Whether JSON answers name their charset, as OpenZiti does for some lists.
    pub charset: bool,
    /// Whether the second authorization scheme is not offered.
    pub(crate) session_only: bool,
    /// Whether the answer has no time limit, because its duration depends on the size of the data.
    pub has_no_time_limit: bool,
    /// Whether it is an extension of the OpenZiti API.
    pub extension: bool,
    pub start: Start,
}
