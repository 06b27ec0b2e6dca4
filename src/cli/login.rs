//! `overkeep login`, `overkeep logout` and `overkeep context`: access to a remote controller for
//! the commands made from the route tables.

use std::{
    io::{self, BufRead, Read, Write},
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use model::config;
use policy::authentication::ApiTokens;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::{Value as Json, json};
use zeroize::Zeroizing;

use super::{
    api::{
        context::{Contexts, LoginContext},
        https, output,
        request::{ApiRequest, MANAGEMENT},
        transport::Transport,
    },
    failure::{CommandError, CommandResult},
    trust::Trust,
};
use crate::admin_socket::Outcome;

/// The maximum bytes of a typed line.
const MAX_LENGTH: u64 = 256 << 10;

/// Log in to a remote controller. Later commands use it, unless they name a data file.
#[derive(Args, Clone, Debug)]
pub(crate) struct Login {
    /// Address of the controller: https://host:port
    url: String,
    /// The user name
    #[arg(long, value_name = "NAME", default_value = "admin")]
    user: String,
    /// Read the password from this file [default: ask for it]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Use an API token instead of a user name and password: that in OVERKEEP_TOKEN, or else one
    /// that is asked for
    #[arg(long, conflicts_with_all = ["user", "password_file", "code"])]
    token: bool,
    /// Keep the login under this name, beside others [default: host:port of the URL]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// A one-time code, if a second factor is required
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    #[command(flatten)]
    trust: Trust,
}

/// End the session of a login and delete it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Logout {
    /// The context of the login [default: the current one]
    context: Option<String>,
}

/// List, choose and delete logins.
#[derive(Args, Clone, Debug)]
pub(crate) struct ContextCommand {
    #[command(subcommand)]
    what: ContextAction,
}

#[derive(Subcommand, Clone, Debug)]
enum ContextAction {
    /// List the logins
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Use a login from now on
    Use { context: String },
    /// End the session of a login and delete it
    Delete { context: String },
}

impl Login {
    /// Logs in and keeps the session.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self) -> CommandResult {
        let (url, host) = address(&self.url, "URL")?;
        let name = self.context.clone().unwrap_or(host);
        let (ca, shown) = self.trust.authority(&url)?;
        if self.token {
            return kept_token(&name, url, ca, shown);
        }
        let password = password(&self.user, self.password_file.as_deref())?;
        let context = with_password(url, &self.user, &password, ca, self.code.as_deref())?;
        let told = format!(
            "logged in to {} as {}; the session is kept",
            context.url, context.user
        );
        let path = Contexts::keep(&name, context)?;
        let message = format!("{told} as the context {name} in {}", path.display());
        Ok(Outcome::Done(vec![format!("authority: {shown}"), message]))
    }
}

impl Logout {
    /// Ends the session and deletes the login; it is deleted even if the session has already ended.
    ///
    /// # Errors
    /// There is no login, or the file cannot be deleted.
    pub(crate) fn act(self) -> CommandResult {
        let all = Contexts::load()?;
        let name = self.context.unwrap_or_else(|| all.current.clone());
        if name.is_empty() {
            return Err(CommandError::of(
                "there is no login: use overkeep login or overkeep context use first",
            ));
        }
        let context = all.named(&name)?.clone();
        if ApiTokens::is_one(&context.token) {
            all.delete(&name)?;
            return Ok(Outcome::Done(vec![format!(
                "the login to {} is deleted; its API token stays valid",
                context.url
            )]));
        }
        let ended = end(&context);
        all.delete(&name)?;
        let line = match ended {
            Ok(()) => format!("logged out of {}", context.url),
            Err(_) => format!(
                "the login to {} is deleted; its session could not be ended",
                context.url
            ),
        };
        Ok(Outcome::Done(vec![line]))
    }
}

impl ContextCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// One line: there is no such login, or the file cannot be read or written.
    pub(crate) fn act(self) -> CommandResult {
        let mut all = Contexts::load()?;
        match self.what {
            ContextAction::List { json } => {
                let shown = |(name, context): (&String, &LoginContext)| {
                    let current = *name == all.current;
                    json!({ "name": name, "url": context.url, "user": context.user, "current": current })
                };
                let shown: Json = all.contexts.iter().map(shown).collect();
                Ok(Outcome::Done(vec![output::text(
                    &shown,
                    if json { "json" } else { "table" },
                    &[],
                )?]))
            }
            ContextAction::Use { context } => {
                let line = format!("commands go to {}", all.named(&context)?.url);
                all.current = context;
                all.save()?;
                Ok(Outcome::Done(vec![line]))
            }
            ContextAction::Delete { context } => Logout {
                context: Some(context),
            }
            .act(),
        }
    }
}

/// An address without a slash at its end, and its `host:port`.
///
/// # Errors
/// The text is not `https://host:port`. The error names `flag`.
pub(super) fn address(text: &str, flag: &str) -> Result<(String, String), CommandError> {
    let url = https::tidy(text).unwrap_or_default();
    match url
        .strip_prefix("https://")
        .filter(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@']))
    {
        Some(host) => Ok((url.clone(), host.to_owned())),
        None => Err(CommandError::Flag(format!(
            "{flag}: {text:?} is not https://host:port"
        ))),
    }
}

/// The password in a file, or one that the user types.
///
/// # Errors
/// The file cannot be read.
pub(super) fn password(user: &str, file: Option<&Path>) -> Result<Zeroizing<String>, CommandError> {
    match config::password("--password-file", file).map_err(|error| error.to_string())? {
        Some(password) => Ok(password),
        None => read_secret(&format!("Password of {user}: ")),
    }
}

/// Logs in with a password.
///
/// # Errors
/// One line: the controller does not answer, or it rejects the log-in.
pub(super) fn with_password(
    url: String,
    user: &str,
    password: &str,
    ca: String,
    code: Option<&str>,
) -> Result<LoginContext, CommandError> {
    let mut context = LoginContext {
        url,
        user: user.to_owned(),
        ca,
        token: String::new(),
    };
    let body = json!({ "username": user, "password": password });
    let query = vec![("method".into(), "password".into())];
    let session = ask(&context, "POST", "/authenticate", query, Some(body))?;
    let token = session
        .get("token")
        .and_then(Json::as_str)
        .unwrap_or_default();
    context.token = token.to_owned();
    if session
        .get("authQueries")
        .and_then(Json::as_array)
        .is_some_and(|queries| !queries.is_empty())
    {
        let code = code.ok_or_else(|| {
            CommandError::of("a second factor is required: give a one-time code with --code")
        })?;
        ask(
            &context,
            "POST",
            "/authenticate/mfa",
            Vec::new(),
            Some(json!({ "code": code })),
        )?;
    }
    Ok(context)
}

/// Ends the session of a login.
///
/// # Errors
/// The controller does not answer, or the session has already ended.
pub(super) fn end(context: &LoginContext) -> Result<(), CommandError> {
    ask(context, "DELETE", "/current-api-session", Vec::new(), None).map(drop)
}

/// Stores an API token as the login, after one request with the token succeeded.
fn kept_token(name: &str, url: String, ca: String, shown: String) -> CommandResult {
    let given = std::env::var("OVERKEEP_TOKEN")
        .ok()
        .map(|token| Zeroizing::new(token.trim().to_owned()))
        .filter(|token| !token.is_empty());
    let token = given.map_or_else(|| read_secret("API token: "), Ok)?;
    if !ApiTokens::is_one(&token) {
        return Err(CommandError::of(
            "the token is not an API token: overkeep create api-token makes one",
        ));
    }
    let mut context = LoginContext {
        url,
        user: String::new(),
        ca,
        token: token.to_string(),
    };
    let session = ask(&context, "GET", "/current-api-session", Vec::new(), None)?;
    context.user = session
        .pointer("/identity/name")
        .and_then(Json::as_str)
        .unwrap_or_default()
        .to_owned();
    let told = format!(
        "the API token of {} for {} is kept",
        context.user, context.url
    );
    let path = Contexts::keep(name, context)?;
    let message = format!("{told} as the context {name} in {}", path.display());
    Ok(Outcome::Done(vec![format!("authority: {shown}"), message]))
}

fn ask(
    context: &LoginContext,
    method: &str,
    path: &str,
    query: Vec<(String, String)>,
    body: Option<Json>,
) -> Result<Json, CommandError> {
    let body = body.map(|body| ("application/json".to_owned(), body.to_string()));
    let request = ApiRequest {
        method: method.into(),
        path: format!("{MANAGEMENT}{path}"),
        query,
        body,
        ..ApiRequest::default()
    };
    Ok(Transport::of_login(context.clone())?
        .ask(request, None)?
        .good()?
        .data())
}

/// Reads a secret from stdin, without echo on a terminal.
fn read_secret(prompt: &str) -> Result<Zeroizing<String>, CommandError> {
    let stdin = io::stdin();
    let before = tcgetattr(&stdin).ok();
    if let Some(mut quiet) = before.clone() {
        drop(write!(io::stderr(), "{prompt}"));
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&stdin, OptionalActions::Flush, &quiet).map_err(CommandError::of)?;
    }
    let mut line = Zeroizing::new(String::new());
    let read = stdin.lock().take(MAX_LENGTH).read_line(&mut line);
    if let Some(before) = before {
        tcsetattr(&stdin, OptionalActions::Flush, &before).map_err(CommandError::of)?;
        drop(writeln!(io::stderr()));
    }
    read.map_err(CommandError::of)?;
    Ok(Zeroizing::new(
        line.trim_end_matches(['\r', '\n']).to_owned(),
    ))
}
