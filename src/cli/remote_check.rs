//! `overkeep check` and `overkeep repair` at the controller of a login, which does the work and is
//! asked for its progress.

use std::{thread, time::Duration};

use serde_json::Value as Json;

use super::{
    api::{context::LoginContext, request::ApiRequest, transport::Transport},
    failure::{CommandError, CommandResult},
    progress::Bar,
};
use crate::admin_socket::Outcome;

const BASE: &str = "/edge/management/v1/database";
/// How often the progress is asked for.
const INTERVAL: Duration = Duration::from_millis(500);

/// Starts an operation on the data file of a controller, `check-data-integrity` or
/// `fix-data-integrity`, and waits for its findings.
///
/// # Errors
/// One line: the controller does not answer, is busy with another check, or could not end it.
pub(super) fn run(context: LoginContext, operation: &str) -> CommandResult {
    let controller = Transport::remote(context)?;
    let ask = |method: &str, path: &str| {
        let request = ApiRequest {
            method: method.into(),
            path: format!("{BASE}/{path}"),
            ..ApiRequest::default()
        };
        Ok::<Json, CommandError>(controller.ask(request, None)?.good()?.data())
    };
    ask("POST", operation)?;
    let mut bar = Bar::default();
    loop {
        let state = ask("GET", "data-integrity-results")?;
        let number = |member: &str| state.get(member).and_then(Json::as_u64).unwrap_or(0);
        if state
            .get("inProgress")
            .is_none_or(|running| running != true)
        {
            return outcome(&state);
        }
        bar.show(number("rowsChecked"), number("rowsTotal"));
        thread::sleep(INTERVAL);
    }
}

/// The findings of a check that ended.
fn outcome(state: &Json) -> CommandResult {
    if let Some(error) = state.get("error").and_then(Json::as_str) {
        return Err(CommandError::of(error));
    }
    let findings = state
        .get("results")
        .and_then(Json::as_array)
        .map_or(&[] as &[Json], Vec::as_slice);
    if findings.is_empty() {
        return Ok(Outcome::Done(vec!["nothing is wrong".into()]));
    }
    let is_fixed = |finding: &Json| finding.get("fixed").is_some_and(|fixed| *fixed == true);
    let line = |finding: &Json| {
        let what = finding
            .get("description")
            .and_then(Json::as_str)
            .unwrap_or_default();
        format!(
            "{}{what}",
            if is_fixed(finding) { "repaired: " } else { "" }
        )
    };
    let more = state
        .get("tooManyErrors")
        .is_some_and(|more| *more == true)
        .then(|| "and more".to_owned());
    let lines = findings.iter().map(line).chain(more).collect();
    Ok(if findings.iter().all(is_fixed) {
        Outcome::Done(lines)
    } else {
        Outcome::Problems(lines)
    })
}
