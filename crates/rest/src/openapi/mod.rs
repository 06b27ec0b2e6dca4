//! The OpenAPI documents, built from the rows of the route tables, and the page that shows them.

pub(crate) mod descriptions;
pub(crate) mod document;
pub(crate) mod example;
pub(crate) mod glossary;
pub(crate) mod operation;
pub(crate) mod page;
pub(crate) mod prose;
