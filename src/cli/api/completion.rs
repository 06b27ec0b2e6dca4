//! Names of records as completions, requested from the controller that the command line names.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use model::hidden_text::is_in;
use query::literal;
use serde_json::Value as Json;

use super::{
    grammar::Operation,
    output,
    request::ApiRequest,
    transport::{Transport, reach},
};
use crate::{admin_socket::socket, cli::admin::ControllerFlags};

/// The maximum number of names that are offered.
const LIMIT: usize = 200;

/// Offers the names in the list of an operation. If the names follow a `sign`, such as `@`, nothing
/// is offered for a word without the sign.
pub(crate) fn names(list: &Operation, sign: &'static str) -> ArgValueCompleter {
    let path = format!("{}{}", list.base, list.path);
    ArgValueCompleter::new(move |current: &OsStr| {
        let Some(begun) = current
            .to_str()
            .and_then(|current| current.strip_prefix(sign))
        else {
            return Vec::new();
        };
        let found = found(path.clone(), begun).unwrap_or_default();
        let names = output::entries(&found).filter_map(|record| record.get("name")?.as_str());
        // A shell prints the names that it offers.
        names
            .filter(|name| name.starts_with(begun) && !is_in(name))
            .map(|name| CompletionCandidate::new(format!("{sign}{name}")))
            .collect()
    })
}

/// The records whose name contains a text; `None` if the controller does not answer with them.
fn found(path: String, text: &str) -> Option<Json> {
    let mut query = vec![("limit".to_owned(), LIMIT.to_string())];
    if !text.is_empty() {
        query.push(("filter".into(), format!("name contains {}", literal(text))));
    }
    let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let flag = |name: &str| {
        let words: Vec<OsString> = std::env::args_os().collect();
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).map(PathBuf::from)
    };
    let transport = reach(
        ControllerFlags::of(flag("--config"), flag("--data")),
        &environment,
    )
    .ok()?;
    // Nobody waits for a controller that starts with a half-typed word.
    if let Transport::Host(data) = &transport
        && !socket::answers(&socket::beside(data))
    {
        return None;
    }
    let request = ApiRequest {
        method: "GET".into(),
        path,
        query,
        ..ApiRequest::default()
    };
    Some(transport.ask(request, None).ok()?.good().ok()?.data())
}
