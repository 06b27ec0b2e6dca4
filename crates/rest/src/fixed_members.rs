//! Members that only creation sets. A later write ignores them, as clients expect, and a header of
//! the answer names those whose value differs from the stored one; with `strict` they are rejected.

use model::error::{Error, Result};
use serde_json::Value as Json;

/// The `fixed` members of a body whose values differ from those of a stored draft.
///
/// # Errors
/// There are some, and `is_strict`.
pub(crate) fn ignored(
    stored: &Json,
    body: &Json,
    fixed: &[&'static str],
    is_strict: bool,
) -> Result<Vec<String>> {
    let differs = |name: &&str| {
        body.get(*name)
            .is_some_and(|sent| !sent.is_null() && !is_same(sent, stored.get(*name)))
    };
    let ignored = fixed.iter().copied().filter(differs);
    if !is_strict {
        return Ok(ignored.map(str::to_owned).collect());
    }
    // The value is not repeated, because it may be a secret.
    Error::all(ignored.map(|name| {
        Err(Error::invalid(
            name,
            "is set when the record is created and cannot be changed",
            "",
        ))
    }))?;
    Ok(Vec::new())
}

/// Whether two values are equal. The ends of lines may differ: programs that read a text from a
/// file change them.
fn is_same(sent: &Json, stored: Option<&Json>) -> bool {
    match (sent, stored) {
        (Json::String(sent), Some(Json::String(stored))) => sent
            .trim_end_matches(LINE_END)
            .lines()
            .eq(stored.trim_end_matches(LINE_END).lines()),
        (sent, stored) => stored == Some(sent),
    }
}

const LINE_END: [char; 2] = ['\r', '\n'];
