//! `overkeep history`: what happened, in lines for people, and whether the history is unmodified.
//! The history is verified by a running controller; if none runs, this process opens the data file.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Subcommand};
use maintenance::offline;
use query::literal;
use serde_json::Value as Json;
use store::HistoryAnchor;

use super::{
    admin::ControllerFlags,
    api::{self, output, request::ApiRequest},
    failure::{CommandError, CommandResult},
    file::{command_result, running},
    history_lines,
};
use crate::admin_socket::{Command, Outcome, verified_lines};

/// Show or verify the history of changes.
#[derive(Args, Clone, Debug)]
pub(crate) struct History {
    #[command(subcommand)]
    what: HistoryCommand,
    #[command(flatten)]
    which: ControllerFlags,
}

#[derive(Subcommand, Clone, Debug)]
enum HistoryCommand {
    /// Show what happened, the newest first: changes, who gained and lost access by them, log-ins
    /// and refusals
    List(ListedRows),
    /// Check whether the history was tampered with. Exit status: 0 no, 3 yes, 1 the check failed
    Verify {
        /// Check this file, such as a snapshot, instead of the data file. No controller may have it
        /// open
        #[arg(value_name = "FILE", conflicts_with = "data")]
        file: Option<PathBuf>,
        /// A row that was noted earlier and must be unchanged
        #[arg(long, value_name = "SEQUENCE:HASH")]
        noted: Option<HistoryAnchor>,
    },
}

/// Which rows are shown, and how.
#[derive(Args, Clone, Debug)]
struct ListedRows {
    /// Only what was done by, or to, the record with this name
    name: Option<String>,
    /// Only rows that match this filter, such as 'kind = "service"' or 'action = "refusal"'
    #[arg(long, value_name = "FILTER", conflicts_with = "name")]
    filter: Option<String>,
    /// The number of rows
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// Print JSON, as GET /overkeep/v1/history answers
    #[arg(long)]
    json: bool,
}

impl History {
    /// Runs the command and returns its findings.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        match self.what {
            HistoryCommand::List(rows) => rows.act(self.which, environment),
            HistoryCommand::Verify { file, noted } => {
                let look = |file: &std::path::Path| {
                    offline::verify_history(file, noted.as_ref())
                        .map(|verified| verified_lines(&verified))
                };
                match &file {
                    Some(file) => command_result(look(file)),
                    None => running(
                        &self.which.config(environment)?,
                        &Command::VerifyHistory {
                            noted: noted.clone(),
                        },
                        look,
                    ),
                }
            }
        }
    }
}

impl ListedRows {
    fn act(self, which: ControllerFlags, environment: &[(OsString, OsString)]) -> CommandResult {
        let named = self.name.map(|name| {
            let name = literal(&name);
            format!("name = {name} or by.name = {name}")
        });
        let mut query = vec![("limit".to_owned(), self.limit.to_string())];
        query.extend(
            self.filter
                .or(named)
                .map(|filter| ("filter".to_owned(), filter)),
        );
        let request = ApiRequest {
            method: "GET".into(),
            path: "/overkeep/v1/history".into(),
            query,
            ..ApiRequest::default()
        };
        let rows = api::reach(which, environment)?
            .ask(request, None)?
            .good()?
            .data();
        if self.json {
            return Ok(Outcome::Done(vec![
                output::json(&rows).map_err(CommandError::of)?,
            ]));
        }
        let rows = rows.as_array().map_or(&[] as &[Json], Vec::as_slice);
        if rows.is_empty() {
            return Ok(Outcome::Done(vec!["no rows".into()]));
        }
        Ok(Outcome::Done(
            rows.iter().flat_map(history_lines::of).collect(),
        ))
    }
}
