//! `overkeep expiring`: certificates, enrollments and API tokens that expire soon, and an overdue
//! snapshot.

use std::ffi::OsString;

use clap::Args;
use serde_json::Value as Json;

use super::{
    CommandResult,
    admin::ControllerFlags,
    api::{self, output, request::ApiRequest},
};
use crate::admin_socket::Outcome;

/// List certificates, enrollments and API tokens that expire soon or have expired, and a scheduled
/// snapshot that is overdue: exit status 0 if there are none, 3 if there are.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExpiringArguments {
    /// List what expires within this time
    #[arg(long, value_name = "DURATION", default_value = "30d")]
    within: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: ControllerFlags,
}

impl ExpiringArguments {
    /// Runs the command.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let query = vec![("within".to_owned(), self.within)];
        let request = ApiRequest {
            method: "GET".into(),
            path: "/overkeep/v1/expiring".into(),
            query,
            ..ApiRequest::default()
        };
        let found = api::reach(self.which, environment)?
            .ask(request, None)?
            .good()?
            .data();
        let items = found.get("items").cloned().unwrap_or_default();
        let (listed, total) = (
            items.as_array().map_or(0, Vec::len),
            found.get("total").and_then(Json::as_u64).unwrap_or(0),
        );
        if self.json {
            let text = output::text(&found, "json", &[])?;
            return Ok(if total == 0 {
                Outcome::Done(vec![text])
            } else {
                Outcome::Problems(vec![text])
            });
        }
        if total == 0 {
            return Ok(Outcome::Done(vec![
                "nothing expires within this time".into(),
            ]));
        }
        let mut lines = vec![output::text(&items, "table", &[])?];
        if total > listed as u64 {
            lines.push(format!("and {} more", total - listed as u64));
        }
        Ok(Outcome::Problems(lines))
    }
}
