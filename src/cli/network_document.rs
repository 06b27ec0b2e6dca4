//! `overkeep export`, `plan` and `apply`: the network as a YAML file.
//!
//! The controller does the work (`PUT /overkeep/v1/network`). This module converts between YAML and
//! JSON and prints plans.

use std::{ffi::OsString, io::Read, path::PathBuf};

use clap::Args;
use model::hidden_text::shown;
use serde_json::{Map, Value as Json};

use super::{
    CommandError, CommandResult,
    admin::ControllerFlags,
    api::{
        self, output,
        request::{ApiRequest, JSON},
    },
    openziti,
    read_document::ReadDocument,
};
use crate::admin_socket::Outcome;

pub(super) const PATH: &str = "/overkeep/v1/network";
/// The maximum length of a file, in bytes.
const MAX_LENGTH: u64 = 64 << 20;

/// Print the whole network as YAML, without ids and secrets, for `plan` and `apply`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Export {
    /// Print a file for `ziti ops import` of OpenZiti instead; comments say what it lacks
    #[arg(long)]
    openziti: bool,
    #[command(flatten)]
    which: ControllerFlags,
}

/// Show what a file would change, and who would gain and lose access. Exit status: 0 no change, 3
/// changes, 1 the file cannot be applied.
#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    #[command(flatten)]
    file: NetworkFile,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: ControllerFlags,
}

/// Apply a file to the network, in one transaction.
#[derive(Args, Clone, Debug)]
pub(crate) struct Apply {
    #[command(flatten)]
    file: NetworkFile,
    /// The tag that `plan` printed: change nothing if the file or the network has changed since
    #[arg(long, value_name = "TAG")]
    plan: Option<String>,
    #[command(flatten)]
    which: ControllerFlags,
}

#[derive(Args, Clone, Debug)]
struct NetworkFile {
    /// A YAML file; - reads stdin
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Also delete the objects that the file does not name, of the kinds that it lists
    #[arg(long)]
    prune: bool,
    /// The maximum number of deletions; if there would be more, nothing is changed
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    max_deletions: u32,
    /// Accept names with control characters, characters that change the direction of text, or
    /// characters without width
    #[arg(long)]
    accept_hidden_characters: bool,
}

impl Export {
    /// Prints the network.
    ///
    /// # Errors
    /// One line: the controller does not answer, or rejects the request.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let controller = api::reach(self.which, environment)?;
        if self.openziti {
            return openziti::file(&controller);
        }
        let request = ApiRequest {
            method: "GET".into(),
            path: PATH.into(),
            ..ApiRequest::default()
        };
        let network = controller.ask(request, None)?.good()?.data();
        Ok(Outcome::Done(vec![output::text(&network, "yaml", &[])?]))
    }
}

impl Plan {
    /// Prints the plan. `Outcome::Problems` if it changes something.
    ///
    /// # Errors
    /// One line: the file cannot be read or applied, or the controller does not answer.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let document = self.file.document()?;
        let mut request = self.file.request(&document);
        request.query.push(("preview".into(), "true".into()));
        let answer = api::reach(self.which, environment)?.ask(request, None)?;
        let plan = answer
            .good()
            .map_err(|failure| document.located(failure))?
            .data();
        let lines = if self.json {
            vec![output::text(&plan, "json", &[])?]
        } else {
            lines(&plan)
        };
        if !entries(&plan, "broken").is_empty() {
            api::print(&lines.join("\n"))?;
            return Err(CommandError::of(
                "the file cannot be applied: an assertion does not hold",
            ));
        }
        Ok(if entries(&plan, "objects").is_empty() {
            Outcome::Done(lines)
        } else {
            Outcome::Problems(lines)
        })
    }
}

impl Apply {
    /// Applies the file and prints the changes.
    ///
    /// # Errors
    /// One line: the file cannot be read or applied, or the controller does not answer.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let document = self.file.document()?;
        let mut request = self.file.request(&document);
        request.headers.extend(
            self.plan
                .map(|tag| ("if-match".into(), format!("\"{tag}\""))),
        );
        let answer = api::reach(self.which, environment)?.ask(request, None)?;
        if answer.status == 412 {
            return Err(CommandError::of(
                "the network or the file has changed since the plan: plan again",
            ));
        }
        let plan = answer
            .good()
            .map_err(|failure| document.located(failure))?
            .data();
        let mut lines = lines(&plan);
        if !entries(&plan, "objects").is_empty() {
            lines.pop();
            lines.push(format!("applied: {}", summary(&plan)));
        }
        Ok(Outcome::Done(lines))
    }
}

impl NetworkFile {
    fn document(&self) -> Result<ReadDocument, CommandError> {
        let refused = |error: String| CommandError::of(format!("{}: {error}", self.path.display()));
        let mut text = String::new();
        let read = if self.path.as_os_str() == "-" {
            std::io::stdin()
                .lock()
                .take(MAX_LENGTH)
                .read_to_string(&mut text)
        } else {
            std::fs::File::open(&self.path)
                .and_then(|file| file.take(MAX_LENGTH).read_to_string(&mut text))
        };
        read.map_err(|error| refused(error.to_string()))?;
        let network: Json =
            serde_saphyr::from_str(&text).map_err(|error| refused(error.to_string()))?;
        // An empty file lists no kinds.
        let network = if network.is_null() {
            Json::Object(Map::new())
        } else {
            network
        };
        Ok(ReadDocument { text, network })
    }

    fn request(&self, document: &ReadDocument) -> ApiRequest {
        let mut query = vec![
            ("prune".to_owned(), self.prune.to_string()),
            ("maxDeletions".to_owned(), self.max_deletions.to_string()),
            ("strict".to_owned(), "true".to_owned()),
        ];
        if self.accept_hidden_characters {
            query.push(("hiddenCharacters".to_owned(), "accept".to_owned()));
        }
        let body = Some((JSON.to_owned(), document.network.to_string()));
        ApiRequest {
            method: "PUT".into(),
            path: PATH.into(),
            query,
            headers: Vec::new(),
            body,
        }
    }
}

pub(super) fn entries<'p>(plan: &'p Json, member: &str) -> &'p [Json] {
    plan.get(member)
        .and_then(Json::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(super) fn word<'j>(json: &'j Json, path: &str) -> &'j str {
    json.pointer(path)
        .and_then(Json::as_str)
        .unwrap_or_default()
}

/// The line about an object of a plan.
pub(super) fn object_line(object: &Json) -> String {
    let (action, kind, name) = (
        word(object, "/action"),
        word(object, "/entity"),
        shown(word(object, "/name")),
    );
    format!("{action} {kind} {name}")
}

/// The lines of a plan; the last line has its tag.
fn lines(plan: &Json) -> Vec<String> {
    let mut lines = Vec::new();
    for object in entries(plan, "objects") {
        lines.push(object_line(object));
        for member in entries(object, "members") {
            let of = |side: &str| member.get(side).map(Json::to_string).unwrap_or_default();
            lines.push(shown(&format!(
                "  {}: {} -> {}",
                word(member, "/member"),
                of("before"),
                of("after")
            )));
        }
    }
    lines.extend(output::access(plan));
    for broken in entries(plan, "broken") {
        let pairs = broken
            .get("pairs")
            .and_then(Json::as_u64)
            .unwrap_or_default();
        let pair = |pair: &Json| {
            format!(
                "{} and {}",
                word(pair, "/identity/name"),
                word(pair, "/service/name")
            )
        };
        let first = entries(broken, "first")
            .iter()
            .map(pair)
            .collect::<Vec<_>>()
            .join(", ");
        lines.push(shown(&format!(
            "does not hold: {}: {first} ({pairs} in all)",
            word(broken, "/assertion")
        )));
    }
    if entries(plan, "objects").is_empty() && lines.is_empty() {
        lines.push("nothing to do".into());
    } else {
        lines.push(format!("plan {}: {}", word(plan, "/tag"), summary(plan)));
    }
    lines
}

fn summary(plan: &Json) -> String {
    let count = |action: &str| {
        entries(plan, "objects")
            .iter()
            .filter(|object| word(object, "/action") == action)
            .count()
    };
    format!(
        "{} created, {} updated, {} deleted",
        count("create"),
        count("update"),
        count("delete")
    )
}
