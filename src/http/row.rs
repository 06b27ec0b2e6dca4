//! A row of a route table.

use super::{body::Incoming, call::Call, handler::Pending, openapi::operation::Operation, permission::Permission};
use crate::error::Result;

/// Takes the arguments of a request and starts the row's function.
pub type Start = Box<dyn Fn(Call, &mut Incoming<'_>) -> Result<Pending> + Send + Sync>;

/// A row of a route table.
pub struct Row {
    pub method: &'static str,
    pub path: String,
    pub permission: Permission,
    pub operation: Operation,
    /// One sentence for people.
    pub summary: String,
    /// JSON answers name their charset, as some lists always did.
    pub charset: bool,
    /// The second authorization scheme is not offered here.
    pub session_only: bool,
    /// The answer is waited for however long it takes, because it takes as long as there is much in the file.
    pub patient: bool,
    /// Not part of the contract.
    pub extension: bool,
    pub start: Start,
}
