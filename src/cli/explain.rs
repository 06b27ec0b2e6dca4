//! `overkeep explain`: why an identity may or may not use a service. After `overkeep login` the
//! controller of the login answers, else that of this host; if none runs, this process opens the
//! data file.

use std::ffi::OsString;

use clap::{Args, ValueEnum};
use policy::access::Right;
use serde_json::Value as Json;

use super::{
    admin::{ControllerFlags, run_command},
    api::{context::LoginContext, login, output, request::ApiRequest, transport::Transport},
    failure::CommandResult,
};
use crate::admin_socket::{Command, Outcome};

/// Explain why an identity may or may not use a service, and what would change that. Exit status: 0
/// it may and it would work now, 3 not, 1 the question cannot be answered.
#[derive(Args, Clone, Debug)]
pub(crate) struct Explain {
    /// dial or bind
    right: Verb,
    /// The identity, by id or name
    identity: String,
    /// The service, by id or name
    service: String,
    /// Print JSON, as GET /overkeep/v1/explain answers
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: ControllerFlags,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Verb {
    Dial,
    Bind,
}

impl Explain {
    /// Runs the command and returns its output.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        if let Some(context) = login(&self.which, environment)? {
            return self.ask(context);
        }
        let Self {
            right,
            identity,
            service,
            json,
            which,
        } = self;
        run_command(
            &which.config(environment)?,
            Command::Explain {
                right: right.into(),
                identity,
                service,
                json,
            },
        )
    }

    /// Asks the controller of a login.
    fn ask(self, context: LoginContext) -> CommandResult {
        let right = match self.right {
            Verb::Dial => "Dial",
            Verb::Bind => "Bind",
        };
        let query = [
            ("identity", self.identity),
            ("service", self.service),
            ("type", right.to_owned()),
        ];
        let query = query
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let request = ApiRequest {
            method: "GET".into(),
            path: "/overkeep/v1/explain".into(),
            query,
            ..ApiRequest::default()
        };
        let answer = Transport::remote(context)?
            .ask(request, None)?
            .good()?
            .data();
        let text = answer
            .get("text")
            .and_then(Json::as_str)
            .unwrap_or_default();
        let lines = if self.json {
            vec![output::json(&answer)?]
        } else {
            text.lines().map(str::to_owned).collect()
        };
        let is_yes = answer
            .get("verdict")
            .and_then(Json::as_bool)
            .unwrap_or_default();
        Ok(if is_yes {
            Outcome::Done(lines)
        } else {
            Outcome::Problems(lines)
        })
    }
}

impl From<Verb> for Right {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Dial => Self::Dial,
            Verb::Bind => Self::Bind,
        }
    }
}
