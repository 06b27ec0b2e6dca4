//! The errors about what violates a schema, in the order in which clients expect them.

use jsonschema::{
    JsonType, ValidationError,
    error::{TypeKind, ValidationErrorKind as Broken},
};
use serde_json::Value as Json;

use crate::error::Error;

/// At most this many violations are reported.
pub(super) const MAX_VIOLATIONS: usize = 20;
/// An error repeats at most this many characters of an offending value.
const MAX_VALUE_LENGTH: usize = 400;

/// Violations found so far; only the most important [`MAX_VIOLATIONS`] are kept.
#[derive(Default)]
pub(super) struct ViolationList(Vec<(ViolationOrder, Error)>);

impl ViolationList {
    pub(super) fn add(&mut self, more: Vec<(ViolationOrder, Error)>) {
        self.0.extend(more);
        if self.0.len() > 4 * MAX_VIOLATIONS {
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.0.sort_by(|(one, first), (other, second)| {
            one.cmp(other)
                .then_with(|| member_of(first).cmp(&member_of(second)))
        });
        self.0.dedup_by(|(_, one), (_, other)| one == other);
        self.0.truncate(MAX_VIOLATIONS);
    }

    /// In order of importance.
    pub(super) fn errors(mut self) -> Vec<Error> {
        self.sort();
        self.0.into_iter().map(|(_, error)| error).collect()
    }
}

/// The path of the member that an error names.
fn member_of(error: &Error) -> Vec<&str> {
    if let Error::Invalid { field, .. } = error {
        field.split('.').collect()
    } else {
        Vec::new()
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Of {
    Body,
    Data,
}

/// The order in which violations are reported. Clients expect that the type of a body is decided
/// first, then its members are read, then rules are checked: first those of all types, then those
/// of its own type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ViolationOrder {
    Form,
    Type,
    Rule,
    RuleOfForm,
}

/// The errors of a violation: one, unless the body has several types.
pub(super) fn errors_of(
    violation: &ValidationError<'_>,
    schema: &Json,
    of: Of,
) -> Vec<(ViolationOrder, Error)> {
    let path = dotted(violation.instance_path().as_str());
    match violation.kind() {
        Broken::OneOfNotValid { context } if of == Of::Body => variant(context, schema, path),
        _ => vec![one(violation, schema, of, path)],
    }
}

fn one(
    violation: &ValidationError<'_>,
    schema: &Json,
    of: Of,
    path: String,
) -> (ViolationOrder, Error) {
    match violation.kind() {
        Broken::Type { .. } if of == Of::Body => (
            ViolationOrder::Type,
            Error::Unparseable(format!("{} {}", named(path), reason(violation))),
        ),
        Broken::Required { property } if of == Of::Body => {
            let name = property.as_str().unwrap_or_default();
            let field = if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}.{name}")
            };
            let value = if is_list(schema, violation, name) {
                "[]"
            } else {
                ""
            };
            let order = if member(schema, violation, name, "const").is_some() {
                ViolationOrder::Form
            } else {
                ViolationOrder::Rule
            };
            (order, Error::missing(field, "is required", value))
        }
        _ => {
            let reason = shortened(&reason(violation));
            let unexpected = match violation.kind() {
                Broken::AdditionalProperties { unexpected } => unexpected
                    .first()
                    .and_then(|name| violation.instance().get(name)),
                _ => None,
            };
            let value = unexpected.unwrap_or_else(|| violation.instance());
            let value = if path.to_lowercase().ends_with("password") {
                String::new()
            } else {
                shown(value)
            };
            (
                ViolationOrder::Rule,
                Error::invalid(named(path), reason, value),
            )
        }
    }
}

/// The violations of a body that has several types: its tag, or what violates the type that the tag
/// names.
fn variant(
    forms: &[Vec<ValidationError<'static>>],
    schema: &Json,
    path: String,
) -> Vec<(ViolationOrder, Error)> {
    let tagged = |form: &&Vec<ValidationError<'static>>| {
        !form
            .iter()
            .any(|v| matches!(v.kind(), Broken::Constant { .. }))
    };
    let tag = forms
        .iter()
        .flatten()
        .find(|v| matches!(v.kind(), Broken::Constant { .. }));
    let form = forms.iter().find(tagged).into_iter().flatten();
    let of_form = |(order, error)| {
        (
            if order == ViolationOrder::Rule {
                ViolationOrder::RuleOfForm
            } else {
                order
            },
            error,
        )
    };
    let broken: Vec<_> = form
        .flat_map(|violation| errors_of(violation, schema, Of::Body))
        .map(of_form)
        .collect();
    if !broken.is_empty() {
        return broken;
    }
    let known = || {
        forms.iter().flatten().filter_map(|v| {
            if let Broken::Constant { expected_value } = v.kind() {
                Some(&**expected_value)
            } else {
                None
            }
        })
    };
    let error = match tag {
        Some(tag) if tag.instance().as_str() == Some("") => Error::invalid(
            dotted(tag.instance_path().as_str()),
            "must not be blank",
            "",
        ),
        Some(tag) => Error::Unparseable(format!(
            "{} must be {}",
            dotted(tag.instance_path().as_str()),
            one_of(known())
        )),
        None => Error::Unparseable(format!("{}: fits no known form", named(path))),
    };
    vec![(ViolationOrder::Form, error)]
}

/// What would be valid, without repeating what was sent.
fn reason(violation: &ValidationError<'_>) -> String {
    match violation.kind() {
        Broken::Enum { options } => format!(
            "must be {}",
            one_of(options.as_array().into_iter().flatten())
        ),
        Broken::Constant { expected_value } => format!("must be {}", text(expected_value)),
        Broken::Type { kind } => format!(
            "must be {}, not {}",
            types(kind),
            type_name(JsonType::from(violation.instance().as_ref()))
        ),
        Broken::MinLength { limit: 1 } => "must not be empty".into(),
        Broken::MinLength { limit } => format!("must have at least {limit} characters"),
        Broken::MaxLength { limit } => format!("must have at most {limit} characters"),
        Broken::MinItems { limit: 1 } => "must have an entry".into(),
        Broken::MinItems { limit } => format!("must have at least {limit} entries"),
        Broken::MaxItems { limit } => format!("must have at most {limit} entries"),
        Broken::Minimum { limit } => format!("must be at least {limit}"),
        Broken::Maximum { limit } => format!("must be at most {limit}"),
        Broken::Pattern { pattern } => format!("must match {pattern}"),
        Broken::Format { format } => format!("must be of the format {format}"),
        _ => violation.masked().to_string(),
    }
}

fn one_of<'v>(values: impl Iterator<Item = &'v Json>) -> String {
    let mut words: Vec<String> = values.filter(|value| !value.is_null()).map(text).collect();
    words.dedup();
    if words.len() == 1 {
        words.concat()
    } else {
        format!("one of {}", words.join(", "))
    }
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => type_name(*one).into(),
        // The error does not mention that null is allowed too: that would not help the reader.
        TypeKind::Multiple(several) => several
            .iter()
            .filter(|one| *one != JsonType::Null)
            .map(type_name)
            .collect::<Vec<_>>()
            .join(" or "),
    }
}

fn type_name(of: JsonType) -> &'static str {
    match of {
        JsonType::Null => "null",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "a whole number",
        JsonType::Number => "a number",
        JsonType::String => "a text",
        JsonType::Array => "a list",
        JsonType::Object => "an object",
    }
}

/// Whether a missing member would be a list, also in one of several types.
fn is_list(schema: &Json, violation: &ValidationError<'_>, name: &str) -> bool {
    let of = member(schema, violation, name, "type");
    of.is_some_and(|of| {
        of == "array"
            || of
                .as_array()
                .is_some_and(|several| several.iter().any(|one| one == "array"))
    })
}

/// What the schema says about a missing member, by keyword.
fn member<'s>(
    schema: &'s Json,
    violation: &ValidationError<'_>,
    name: &str,
    keyword: &str,
) -> Option<&'s Json> {
    let object = violation
        .schema_path()
        .as_str()
        .trim_end_matches("/required");
    schema.pointer(&format!("{object}/properties/{name}/{keyword}"))
}

/// A JSON pointer as a path with dots.
fn dotted(pointer: &str) -> String {
    pointer
        .trim_start_matches('/')
        .split('/')
        .map(|part| part.replace("~1", "/").replace("~0", "~"))
        .collect::<Vec<_>>()
        .join(".")
}

fn named(path: String) -> String {
    if path.is_empty() {
        "(root)".into()
    } else {
        path
    }
}

/// A value as errors show it: strings without quotes, lists without commas, at most
/// [`MAX_VALUE_LENGTH`] characters.
pub(crate) fn shown(value: &Json) -> String {
    shortened(&text(value))
}

fn text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(" ")),
        other => other.to_string(),
    }
}

pub(super) fn shortened(text: &str) -> String {
    text.chars().take(MAX_VALUE_LENGTH).collect()
}
