//! The parameters `filter` and `sort`, parsed as a whole.

use super::{FilterFault, Parameter, Query, Sort, Vocabulary, parser::Parser};

impl Query {
    /// Parses the `filter` parameter; an empty one matches everything.
    pub fn parse(text: &str, words: &dyn Vocabulary) -> Result<Query, FilterFault> {
        if text.is_empty() {
            return Ok(Query::default());
        }
        let mut parser = Parser::new(text, words)?;
        let query = parser.query()?;
        parser.end()?;
        Ok(query)
    }
}

/// Parses the `sort` parameter: `name desc, createdAt`. Clients may append `skip` and `limit`; they
/// are parsed and ignored.
pub fn parse_sort(text: &str, words: &dyn Vocabulary) -> Result<Vec<Sort>, FilterFault> {
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
    read().map_err(|fault: FilterFault| FilterFault {
        parameter: Parameter::Sort,
        ..fault
    })
}
