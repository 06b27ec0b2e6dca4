//! The data about an operation, from which the OpenAPI documents are built and requests are
//! validated.

use std::{collections::BTreeSet, sync::Arc};

use model::{error::Result, schema::Checker};
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value as Json};

use crate::{header::Header, network_document::kind::DeclaredKind};

/// The query parameter with which a request asks for the rejection of unknown members and
/// parameters.
pub(crate) const STRICT: &str = "strict";

/// The media type of most bodies and answers.
pub(crate) const JSON: &str = "application/json";

/// The location of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterLocation {
    Path,
    Query,
    Header,
}

impl ParameterLocation {
    /// Its word in OpenAPI.
    pub fn word(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
        }
    }
}

/// A parameter outside the body.
#[derive(Debug, Clone)]
pub struct Parameter {
    pub name: String,
    pub place: ParameterLocation,
    pub required: bool,
    pub schema: Json,
}

/// A request body.
#[derive(Clone)]
pub struct BodyShape {
    /// The name in the error about a missing body.
    pub name: String,
    pub required: bool,
    /// The accepted media types.
    pub media: &'static [&'static str],
    /// The schema of the JSON form; other forms are text.
    pub schema: Arc<Json>,
    /// Checks the JSON form.
    pub checker: Option<Arc<Checker>>,
    /// The name of the schema in the OpenAPI document.
    pub title: Option<String>,
    /// Whether the argument type, not the dispatcher, checks the media type.
    pub judged_by_function: bool,
}

/// A successful answer: status, and media types with their schemas.
#[derive(Debug, Clone)]
pub struct AnswerShape {
    pub status: u16,
    pub content: Vec<(&'static str, Option<Json>)>,
    /// The headers of this answer besides those of every answer.
    pub headers: &'static [Header],
}

/// The description of an operation, derived from the types of its function.
#[derive(Default)]
pub struct Operation {
    pub parameters: Vec<Parameter>,
    pub body: Option<BodyShape>,
    pub answer: Option<AnswerShape>,
    /// The JSON schema of a preview's answer, status 200.
    pub preview: Option<Json>,
    /// Members of the body that refer to records by id, and the path of their kind.
    pub references: Vec<(&'static str, &'static str)>,
    /// The kind whose records the operation replaces, if these records occur in network documents.
    pub declared: Option<DeclaredKind>,
    pub errors: BTreeSet<u16>,
    /// Whether the answer ignores the `accept` header.
    pub(crate) any_accept: bool,
}

impl Operation {
    /// Adds the parameters of a flat struct.
    pub(crate) fn parameters_of<T: JsonSchema>(&mut self, place: ParameterLocation) {
        let schema = Schemas::inline::<T>();
        let required: BTreeSet<&str> = schema
            .get("required")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .collect();
        for (name, schema) in schema
            .get("properties")
            .and_then(Json::as_object)
            .into_iter()
            .flatten()
        {
            let schema = without_null(schema.clone());
            self.parameters.push(Parameter {
                name: name.clone(),
                place,
                required: required.contains(name.as_str()),
                schema,
            });
        }
    }

    /// Sets a JSON body with this schema, which is validated before any other code reads it.
    ///
    /// # Errors
    /// The schema is invalid, which is a defect.
    pub(crate) fn json_body(&mut self, name: &str, title: String, schema: Json) -> Result<()> {
        let checker = Some(Arc::new(Checker::own(&schema)?));
        self.body = Some(BodyShape {
            name: name.into(),
            required: true,
            media: &[JSON],
            schema: Arc::new(schema),
            checker,
            title: Some(title),
            judged_by_function: false,
        });
        let description = "`true`: unknown members of the body, and changes of members that only creation sets, are rejected, and so are names with control characters, \
             characters that change the direction of text, or characters without width. By default a header names each of them.";
        let schema = serde_json::json!({ "type": "boolean", "description": description });
        self.parameters.push(Parameter {
            name: STRICT.into(),
            place: ParameterLocation::Query,
            required: false,
            schema,
        });
        self.errors.insert(400);
        Ok(())
    }
}

/// Removes null from the schema of an optional parameter, which is absent instead.
fn without_null(mut schema: Json) -> Json {
    let Some(object) = schema.as_object_mut() else {
        return schema;
    };
    object.shift_remove("default");
    if let Some(kinds) = object.get("type").and_then(Json::as_array) {
        let kinds: Vec<Json> = kinds
            .iter()
            .filter(|kind| *kind != "null")
            .cloned()
            .collect();
        if let [one] = kinds.as_slice() {
            let one = one.clone();
            object.insert("type".into(), one);
        }
    }
    if let Some(either) = object.get("anyOf").and_then(Json::as_array)
        && let Some(one) = either
            .iter()
            .find(|s| s.get("type") != Some(&Json::from("null")))
    {
        return one.clone();
    }
    schema
}

/// Generates JSON schemas from types.
pub(crate) struct Schemas {
    answers: SchemaGenerator,
}

impl Default for Schemas {
    fn default() -> Self {
        let settings = SchemaSettings::draft2020_12().for_serialize().with(|s| {
            s.definitions_path = "/components/schemas".into();
            s.meta_schema = None;
        });
        Self {
            answers: settings.into_generator(),
        }
    }
}

impl Schemas {
    /// The schema of an answer; referenced schemas are collected for the document.
    pub(crate) fn answer<T: JsonSchema>(&mut self) -> Json {
        let schema: Schema = self.answers.subschema_for::<T>();
        schema.to_value()
    }

    /// The collected schemas by name.
    pub(crate) fn into_components(mut self) -> Map<String, Json> {
        self.answers.take_definitions(true)
    }

    /// The schema of a body, without references.
    pub(crate) fn inline<T: JsonSchema>() -> Json {
        let settings = SchemaSettings::draft2020_12().with(|s| {
            s.inline_subschemas = true;
            s.meta_schema = None;
        });
        let mut schema = settings
            .into_generator()
            .into_root_schema_for::<T>()
            .to_value();
        if let Some(object) = schema.as_object_mut() {
            object.shift_remove("title");
        }
        schema
    }
}
