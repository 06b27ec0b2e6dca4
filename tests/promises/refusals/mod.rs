//! Every operation of every interface rejects invalid input with the errors that clients know.
//! Requests are derived from the route tables and body schemas, so that a new row is covered; the
//! expected errors are listed here.
//!
//! Errors that depend on records (names that are taken, ids that do not exist) are in
//! `conflicts/mod.rs`.

mod bodies;
mod requests;

use std::collections::{BTreeMap, BTreeSet};

use policy::change::KINDS;
use rest::Row;

use serde_json::{Map, Value as Json, json};

use crate::{
    harness::{Answer, Base, encoded, fresh, interface, shared},
    schema_bodies::{Fault, Step, forms, minimal_body, probes, put},
};

const MISSING_ID: &str = "nothing-has-this-id";

/// The expected error.
#[derive(Debug, Clone, Copy)]
pub enum Expected<'e> {
    /// 400, and this member breaks a rule; blank: any member.
    Field(&'e str),
    /// 400, and the body cannot be parsed.
    Unread,
    /// Status and code, without a named member.
    Code(u16, &'e str),
    /// The same, with a named member.
    Of(u16, &'e str, &'e str),
}

impl Expected<'_> {
    /// Whether an answer has another status, another code or another form of cause.
    pub fn differs(&self, answer: &Answer) -> bool {
        let (status, code, field) = match *self {
            Self::Field(field) => (400, "COULD_NOT_VALIDATE", Some(field)),
            Self::Unread => (400, "COULD_NOT_PARSE_BODY", None),
            Self::Code(status, code) => (status, code, None),
            Self::Of(status, code, field) => (status, code, Some(field)),
        };
        let error = &answer.json["error"];
        let text = |of: &Json, name: &str| of[name].as_str().is_some_and(|text| !text.is_empty());
        let cause = &error["cause"];
        let members: Vec<&str> = cause
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect();
        let is_right = match field {
            Some(field) => {
                let named = if field.is_empty() {
                    text(cause, "field")
                } else {
                    cause["field"] == field
                };
                named
                    && members == ["field", "reason", "value"]
                    && text(cause, "reason")
                    && cause["value"].is_string()
            }
            // An error without a named member has no cause.
            None => {
                cause.is_null()
                    || (members == ["code", "message"]
                        && cause["code"] == "UNHANDLED"
                        && text(cause, "message"))
            }
        };
        !(answer.status == status
            && error["code"] == code
            && text(error, "message")
            && text(error, "requestId")
            && is_right)
    }
}

/// Unexpected answers, reported together at the end.
#[derive(Default)]
pub struct Differences(Vec<String>);

impl Differences {
    pub fn check(&mut self, what: &str, answer: &Answer, expected: Expected<'_>) {
        if expected.differs(answer) {
            self.0.push(format!(
                "{} {what}: expected {expected:?}, not {} {}",
                answer.request, answer.status, answer.text
            ));
        }
    }
}

impl Drop for Differences {
    fn drop(&mut self) {
        assert!(
            self.0.is_empty() || std::thread::panicking(),
            "{}:\n{}",
            self.0.len(),
            self.0.join("\n")
        );
    }
}

/// An operation and its interface.
struct Operation {
    base: Base,
    row: &'static Row,
}

fn operations() -> impl Iterator<Item = Operation> {
    Base::ALL.into_iter().flat_map(|base| {
        interface(base)
            .rows()
            .map(move |row| Operation { base, row })
    })
}

impl Operation {
    fn name(&self) -> String {
        format!("{} {}", self.row.method, self.row.path)
    }

    /// The path, with an id in place of each parameter, and the required query.
    fn path(&self, id: &str) -> String {
        let path = self
            .row
            .path
            .split('/')
            .map(|part| if part.starts_with('{') { id } else { part })
            .collect::<Vec<_>>()
            .join("/");
        let demanded = match self.row.path.as_str() {
            "/authenticate" => "?method=password",
            "/enroll/updb" => "?token=5f0c7f6e-3b1c-4d57-9a20-6b1f0f6f5e11",
            _ => "",
        };
        path + demanded
    }

    /// The schema of its JSON body; none for `POST /enroll`, which parses its body itself.
    fn schema(&self) -> Option<&'static Json> {
        let shape = self
            .row
            .operation
            .body
            .as_ref()
            .filter(|shape| shape.checker.is_some() && !shape.judged_by_function);
        shape.map(|shape| &*shape.schema)
    }

    /// Its answer to the administrator, for a record that does not exist.
    fn sent(&self, media: &str, body: &str) -> Answer {
        let caller = shared().admin.at(self.base);
        let asking = caller.ask(self.row.method, &self.path(MISSING_ID));
        if media.is_empty() {
            asking.untyped(body).send()
        } else {
            asking.body(media, body).send()
        }
    }

    fn answer(&self, body: &Json) -> Answer {
        self.sent("application/json", &body.to_string())
    }
}

/// The members of a form that distinguish it from the others.
fn tags(form: &Json) -> Json {
    let members = form["properties"].as_object().into_iter().flatten();
    members
        .filter_map(|(name, member)| Some((name.clone(), member.get("const")?.clone())))
        .collect::<Map<_, _>>()
        .into()
}

/// A place in a body as errors name it: with dots; a member of one of several posture responses is
/// named as if that response were alone.
fn named(operation: &Operation, path: &[Step]) -> String {
    let alone = operation.row.path == "/posture-response-bulk";
    let parts = path.iter().skip(usize::from(alone)).map(Step::to_string);
    parts.collect::<Vec<_>>().join(".")
}
