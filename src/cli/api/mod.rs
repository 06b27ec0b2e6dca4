//! Commands for every operation of the route tables: `overkeep list identities`, `overkeep create
//! service web`.
//!
//! No code here knows a kind. `grammar.rs` makes the words of an operation from its row in a route
//! table, `tree.rs` the commands, `arguments.rs` the flags from the description of the operation,
//! and `members.rs` the body from the flags. `names.rs` converts names to ids, and `completion.rs`
//! offers names to shells. `transport.rs` sends the request, and `output.rs` prints the answer.
//! Start with `command` and `act`.

mod arguments;
mod call;
mod completion;
pub mod context;
pub mod grammar;
pub mod https;
mod members;
mod names;
mod operation_shape;
pub mod output;
mod raw_output;
pub mod request;
mod roles;
pub mod transport;
mod tree;

use std::{ffi::OsString, io::Write, path::PathBuf};

use clap::{ArgMatches, Command};
use model::hidden_text::shown_lines;
use rest::Interfaces;
use serde_json::Value as Json;

use super::{
    admin::ControllerFlags,
    failure::{CommandError, warn},
};

use grammar::{Grammar, Operation};
use names::NameLookup;
pub(crate) use names::encoded;
use raw_output::RawOutput;
use request::{ApiAnswer, ApiRequest};
use transport::Transport;
pub(crate) use transport::{login, login_without_file, reach};

/// Entries requested per page.
const PAGE: usize = 500;
/// The maximum number of entries of a list that is held in memory.
const MAX_ENTRIES: usize = 2_000_000;
/// The maximum length of the pages of such a list together, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// The words of every operation.
///
/// # Errors
/// A row of the tables is invalid, which is a defect.
pub fn grammar() -> Result<Grammar, CommandError> {
    Interfaces::new()
        .map(|interfaces| Grammar::of(&interfaces))
        .map_err(CommandError::of)
}

/// The command line: the commands of the program and those of the operations. If `first` begins
/// commands of operations, the others are left out, because most of the time of a short command
/// would be spent on them.
pub fn command(program: Command, grammar: &Grammar, first: Option<&str>) -> Command {
    let reserved: Vec<String> = program
        .get_subcommands()
        .map(|command| command.get_name().to_owned())
        .collect();
    program.subcommands(tree::commands(grammar, &reserved, first))
}

/// The operation of a parsed command line, and its flags.
pub fn chosen_operation<'g, 'm>(
    grammar: &'g Grammar,
    matches: &'m ArgMatches,
) -> Option<(&'g Operation, &'m ArgMatches)> {
    let (mut words, mut at) = (Vec::new(), matches);
    while let Some((word, below)) = at.subcommand() {
        words.push(word);
        at = below;
    }
    tree::chosen(grammar, &words).map(|operation| (operation, at))
}

/// Runs the operation of a command line.
///
/// # Errors
/// One line: a flag is invalid, the controller does not answer, or it rejects the request.
pub fn act(
    grammar: &Grammar,
    operation: &Operation,
    matches: &ArgMatches,
    environment: &[(OsString, OsString)],
) -> Result<(), CommandError> {
    let transport = transport(matches, environment)?;
    let mut names = NameLookup::new(grammar, &transport);
    let format = matches.get_one::<String>("output").map(String::as_str);
    let columns = columns(grammar, operation, matches)?;
    let wants_page = operation.verb == "list"
        && is_paged(grammar, operation)
        && !has(matches, "query.limit")
        && !has(matches, "query.offset");
    for request in call::requests(&mut names, operation, matches)? {
        if wants_page {
            let all = everything(&transport, &request)?;
            match format {
                Some(arguments::CONFIGURATION) => {
                    print_configurations(&mut names, operation, &all)?
                }
                _ if !columns.is_empty() => print(&output::chosen_columns(&all, &columns))?,
                _ => print(&output::text(
                    &all,
                    format.unwrap_or("table"),
                    &operation_shape::members_of_new(grammar, operation),
                )?)?,
            }
            continue;
        }
        let is_preview = request
            .query
            .iter()
            .any(|(name, value)| name == "preview" && value == "true");
        let path = request.path.clone();
        let answer = if roles::is_asked(matches) {
            roles::change(&mut names, operation, matches, &request)?.good()?
        } else {
            transport
                .ask(request, Some(&mut RawOutput::stdout()))?
                .good()?
        };
        if !matches.get_flag("quiet") {
            for warning in &answer.warnings {
                warn(warning);
            }
        }
        if is_preview && format.is_none() {
            output::preview(&answer.data())
                .iter()
                .try_for_each(|line| print(line))?;
        } else if !columns.is_empty() {
            print(&output::chosen_columns(&answer.data(), &columns))?;
        } else if format == Some(arguments::CONFIGURATION) {
            print_configurations(&mut names, operation, &answer.data())?;
        } else {
            print_answer(
                grammar, &transport, operation, matches, &path, &answer, format,
            )?;
        }
    }
    Ok(())
}

/// The controller that the request is sent to: that of this host if its data file or configuration
/// is named, else that of the current login, else that of the default data file.
fn transport(
    matches: &ArgMatches,
    environment: &[(OsString, OsString)],
) -> Result<Transport, CommandError> {
    let path = |flag: &str| matches.get_one::<PathBuf>(flag).cloned();
    reach(
        ControllerFlags::of(path("config"), path("data")),
        environment,
    )
}

/// The chosen columns of a table; none if the command line leaves the choice to the program.
fn columns(
    grammar: &Grammar,
    operation: &Operation,
    matches: &ArgMatches,
) -> Result<Vec<String>, CommandError> {
    let given = matches
        .try_get_many::<String>("columns")
        .ok()
        .flatten()
        .into_iter()
        .flatten();
    let columns: Vec<String> = given.map(|column| column.trim().to_owned()).collect();
    if columns.is_empty() {
        return Ok(columns);
    }
    if matches
        .get_one::<String>("output")
        .is_some_and(|format| format != "table")
    {
        return Err(CommandError::Flag(
            "--columns: is for tables; leave out --output".into(),
        ));
    }
    let members = grammar.listed_members(operation);
    match columns
        .iter()
        .find(|column| !members.is_empty() && !output::is_column(column, &members))
    {
        Some(unknown) => Err(CommandError::Flag(format!(
            "--columns: {unknown:?} is none of {}",
            members.join(", ")
        ))),
        None => Ok(columns),
    }
}

fn has(matches: &ArgMatches, id: &str) -> bool {
    matches.try_contains_id(id).unwrap_or_default() && matches.value_source(id).is_some()
}

/// Whether an operation returns a list in pages.
fn is_paged(grammar: &Grammar, operation: &Operation) -> bool {
    let parameters = grammar
        .described(operation)
        .get("parameters")
        .and_then(Json::as_array);
    parameters
        .into_iter()
        .flatten()
        .filter_map(|parameter| parameter.get("name"))
        .any(|name| name == "offset")
}

/// All entries of a list, requested in pages.
///
/// # Errors
/// One line: the controller does not answer, or it rejects the request.
pub fn everything(transport: &Transport, request: &ApiRequest) -> Result<Json, CommandError> {
    let (mut all, mut bytes) = (Vec::new(), 0);
    loop {
        let mut part = request.clone();
        part.query.extend([
            ("limit".into(), PAGE.to_string()),
            ("offset".into(), all.len().to_string()),
        ]);
        let answer = transport.ask(part, None)?.good()?;
        bytes += answer.body.len();
        if bytes > MAX_BYTES {
            return Err(CommandError::of(format!(
                "{}: the list is longer than {} MiB",
                request.path,
                MAX_BYTES >> 20
            )));
        }
        let mut whole = answer.json().unwrap_or_default();
        let entries = whole.get_mut("data").map(Json::take);
        let number = |member: &str| {
            whole
                .pointer(&format!("/meta/pagination/{member}"))
                .and_then(Json::as_u64)
        };
        let Some(Json::Array(entries)) = entries else {
            return Err(CommandError::of(format!(
                "{}: the answer is not a list",
                request.path
            )));
        };
        // A limit in the filter takes precedence over the request's. A page that is not full is the
        // last one, whatever a server says.
        let is_last = entries.len() < PAGE || number("limit") != Some(PAGE as u64);
        all.extend(entries);
        if all.len() > MAX_ENTRIES {
            return Err(CommandError::of(format!(
                "{} has more than {MAX_ENTRIES} entries",
                request.path
            )));
        }
        if is_last || number("totalCount").is_none_or(|total| all.len() as u64 >= total) {
            return Ok(Json::Array(all));
        }
    }
}

/// Prints the answer of an operation.
fn print_answer(
    grammar: &Grammar,
    transport: &Transport,
    operation: &Operation,
    matches: &ArgMatches,
    path: &str,
    answer: &ApiAnswer,
    format: Option<&str>,
) -> Result<(), CommandError> {
    let data = answer.data();
    let id = data.get("id").and_then(Json::as_str);
    let wants_token = has(matches, "enroll")
        || matches
            .try_get_one::<bool>("jwt")
            .ok()
            .flatten()
            .is_some_and(|wanted| *wanted);
    if let (true, Some(id)) = (wants_token, id) {
        let detail = ApiRequest {
            method: "GET".into(),
            path: format!("{path}/{id}"),
            ..ApiRequest::default()
        };
        let record = transport.ask(detail, None)?.good()?.data();
        let token = token(&record).ok_or_else(|| {
            CommandError::of(format!("{id} was created and has no enrollment token"))
        })?;
        return print(token);
    }
    let order = || operation_shape::members_of_new(grammar, operation);
    let is_quiet = matches.get_flag("quiet");
    let is_empty = data.as_object().is_none_or(serde_json::Map::is_empty) && !data.is_array();
    match (format, id) {
        _ if is_quiet && operation.method != "GET" => Ok(()),
        (Some(format), _) => print(&output::text(&data, format, &order())?),
        (None, Some(id)) if operation.verb == "create" && !has_more_than_id(&data) => print(id),
        (None, _) if is_empty => Ok(()),
        (None, _) if operation.verb == "list" => print(&output::text(&data, "table", &order())?),
        (None, _) => print(&output::text(&output::without_links(data), "yaml", &[])?),
    }
}

/// Prints the configuration file of each record in an answer, in YAML; several are separate
/// documents. Records of a list that have none are left out.
fn print_configurations(
    names: &mut NameLookup<'_>,
    operation: &Operation,
    data: &Json,
) -> Result<(), CommandError> {
    let Some(shown) = names.grammar.configuration(operation) else {
        return Ok(());
    };
    let mut documents = Vec::new();
    for id in output::entries(data).filter_map(|record| record.get("id")?.as_str()) {
        let path = shown.base.to_owned() + &shown.path.replace("{id}", &names::encoded(id));
        let answer = names.transport.ask(
            ApiRequest {
                method: "GET".into(),
                path,
                ..ApiRequest::default()
            },
            None,
        )?;
        if !(data.is_array() && answer.status == 404) {
            documents.push(output::text(&answer.good()?.data(), "yaml", &[])?);
        }
    }
    print(&documents.join("\n---\n"))
}

/// Whether an answer holds more than the id of a new record, such as a secret that is shown once.
fn has_more_than_id(data: &Json) -> bool {
    data.as_object()
        .into_iter()
        .flat_map(serde_json::Map::keys)
        .any(|member| member != "id" && member != "_links")
}

/// The enrollment token in a record.
fn token(record: &Json) -> Option<&str> {
    let of = |member: &str| {
        record
            .get(member)
            .and_then(Json::as_str)
            .filter(|token| !token.is_empty())
    };
    let methods = record
        .get("enrollment")
        .and_then(Json::as_object)
        .into_iter()
        .flat_map(|methods| methods.values());
    let of_methods = || {
        methods
            .filter_map(|method| method.get("jwt")?.as_str())
            .find(|token| !token.is_empty())
    };
    of("enrollmentJwt")
        .or_else(|| of("jwt"))
        .or_else(of_methods)
}

/// Prints a text of one or more lines, which may quote text of others. A closed stdout is not an
/// error.
///
/// # Errors
/// It cannot be written.
pub fn print(text: &str) -> Result<(), CommandError> {
    if text.is_empty() {
        return Ok(());
    }
    match writeln!(std::io::stdout().lock(), "{}", shown_lines(text)) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CommandError::of(format!("stdout: {error}")))
        }
        _ => Ok(()),
    }
}
