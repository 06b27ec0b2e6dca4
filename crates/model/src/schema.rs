//! JSON schemas: compiled once; violations become [`Error`]s.
//!
//! Used for request bodies (the crate `rest`) and for config data (`entity/`). Not here: where
//! schemas come from. Start reading at [`Checker`]. Invariant: an error never repeats the value of
//! a password.

mod violations;

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value as Json;

use crate::error::{Error, Result};
pub(crate) use violations::shown;
use violations::{MAX_VIOLATIONS, Of, ViolationList, errors_of, shortened};

/// The size limit in bytes of a compiled regular expression of a schema.
const PATTERN_BYTES: usize = 1 << 20;
/// A body with more values than this is checked for violations only at the beginnings of its lists
/// and objects: each violation costs memory.
const MAX_VALUES: usize = 4096;
/// Length of such a beginning: items of a list, or members of an object.
const BEGINNING: usize = 64;

/// A compiled JSON schema.
pub struct Checker {
    validator: Validator,
    /// The schema itself, to look up missing members; `null` for a foreign schema.
    schema: Json,
}

/// Why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchema(String);

impl Checker {
    /// Compiles a schema from a request. Nothing is fetched; patterns match in linear time. Draft 7
    /// unless `$schema` names another.
    ///
    /// # Errors
    /// The schema is invalid.
    pub fn foreign(schema: &Json) -> Result<Self, InvalidSchema> {
        let draft = if schema.get("$schema").is_some() {
            None
        } else {
            Some(jsonschema::Draft::Draft7)
        };
        let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES);
        let mut options = jsonschema::options()
            .offline()
            .with_pattern_options(patterns)
            .should_validate_formats(true);
        options = options.with_format("idn-hostname", |name: &str| !name.is_empty());
        if let Some(draft) = draft {
            options = options.with_draft(draft);
        }
        options
            .build(schema)
            .map(|validator| Self {
                validator,
                schema: Json::Null,
            })
            .map_err(|e| InvalidSchema(shortened(&e.masked().to_string())))
    }

    /// Compiles the schema of a request body of this API.
    ///
    /// # Errors
    /// The schema is invalid, which is a defect.
    pub fn own(schema: &Json) -> Result<Self> {
        let built = jsonschema::options()
            .offline()
            .should_validate_formats(false)
            .build(schema);
        built
            .map(|validator| Self {
                validator,
                schema: schema.clone(),
            })
            .map_err(|e| Error::Internal(format!("a schema of ours: {e}")))
    }

    /// Checks a request body.
    ///
    /// # Errors
    /// All violations: [`Error::Unparseable`] for a member of the wrong JSON type,
    /// [`Error::Invalid`] with the member's path otherwise.
    pub fn check_body(&self, body: &Json) -> Result<()> {
        if self.validator.is_valid(body) {
            return Ok(());
        }
        let shortened = exceeds(body, &mut { MAX_VALUES }).then(|| beginning(body));
        let mut list = ViolationList::default();
        for violation in self
            .validator
            .iter_errors(shortened.as_ref().unwrap_or(body))
        {
            list.add(errors_of(&violation, &self.schema, Of::Body));
        }
        let behind = || {
            Error::invalid(
                "(root)",
                format!(
                    "an item after the first {BEGINNING} of a list, or a member after the first {BEGINNING} of an object, is invalid"
                ),
                "",
            )
        };
        Err(Error::several(list.errors()).unwrap_or_else(behind))
    }

    /// Checks config data. Every violation is an [`Error::Invalid`]; a missing or unknown member is
    /// one of `(root)`.
    ///
    /// # Errors
    /// The violations; for large data only the first.
    pub(crate) fn check_data(&self, data: &Json) -> Result<()> {
        let Err(first) = self.validator.validate(data) else {
            return Ok(());
        };
        let data_errors = |violation: &ValidationError<'_>| {
            errors_of(violation, &self.schema, Of::Data)
                .into_iter()
                .map(|(_, error)| error)
        };
        let mut errors: Vec<Error> = data_errors(&first).collect();
        if !exceeds(data, &mut { MAX_VALUES }) {
            for error in self
                .validator
                .iter_errors(data)
                .flat_map(|violation| data_errors(&violation).collect::<Vec<_>>())
            {
                if !errors.contains(&error) && errors.len() < MAX_VIOLATIONS {
                    errors.push(error);
                }
            }
        }
        Error::several(errors).map_or(Ok(()), Err)
    }
}

/// Whether `value` holds more values than `left`; counts `left` down.
fn exceeds(value: &Json, left: &mut usize) -> bool {
    let Some(fewer) = left.checked_sub(1) else {
        return true;
    };
    *left = fewer;
    match value {
        Json::Array(items) => items.iter().any(|item| exceeds(item, left)),
        Json::Object(members) => members.values().any(|member| exceeds(member, left)),
        _ => false,
    }
}

/// The value cut to the first [`BEGINNING`] entries of each list and object.
fn beginning(value: &Json) -> Json {
    match value {
        Json::Array(items) => items.iter().take(BEGINNING).map(beginning).collect(),
        Json::Object(members) => members
            .iter()
            .take(BEGINNING)
            .map(|(name, member)| (name.clone(), beginning(member)))
            .collect(),
        other => other.clone(),
    }
}
