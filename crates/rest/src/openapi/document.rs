//! Builds the OpenAPI 3.1 document of an interface from its rows.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use super::{
    example, glossary,
    operation::{BodyShape, Operation, Parameter, ParameterLocation, Schemas},
    prose,
};
use crate::{
    envelope::Meta, error_shape::ErrorEnvelope, header::Header, permission::Permission, row::Row,
};

const SESSION_SCHEME: &str = "ztSession";
const TOKEN_SCHEME: &str = "oauth2";

/// Builds the document.
pub(crate) fn assemble(
    name: &str,
    base: &str,
    version: &str,
    rows: &[Arc<Row>],
    mut schemas: Schemas,
) -> Json {
    let error = schemas.answer::<ErrorEnvelope>();
    schemas.answer::<Meta>();
    let mut bodies = Map::new();
    let mut paths = Map::<String, Json>::new();
    for row in rows {
        let described = operation(row, &error, &mut bodies);
        let item = paths.entry(row.path.clone()).or_insert_with(|| json!({}));
        if let Some(item) = item.as_object_mut() {
            item.insert(row.method.to_lowercase(), described);
        }
    }
    let mut components = schemas.into_components();
    for schema in components.values_mut() {
        glossary::explain(schema);
    }
    components.extend(bodies);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": format!("Overkeep {name}"),
            "version": version,
            "description": prose::INTRODUCTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" }
        },
        "servers": [{ "url": base }],
        "paths": paths,
        "components": {
            "schemas": components,
            "headers": Header::components(),
            "securitySchemes": {
                SESSION_SCHEME: {
                    "type": "apiKey", "in": "header", "name": "zt-session",
                    "description": "The token of an API session, from the answer of POST /authenticate."
                },
                TOKEN_SCHEME: {
                    "type": "http", "scheme": "bearer",
                    "description": "Access tokens of this controller. It issues none at present, so a bearer token alone is rejected."
                }
            }
        }
    })
}

fn operation(row: &Row, error: &Json, bodies: &mut Map<String, Json>) -> Json {
    let mut described = json!({
        "operationId": id(row.method, &row.path),
        "summary": row.summary,
        "description": prose::description(row),
        "tags": [prose::heading(&row.path)],
        "parameters": parameters(&row.operation, &row.path),
        "responses": responses(row, error),
        "security": security(row),
    });
    let Some(object) = described.as_object_mut() else {
        return described;
    };
    if row.extension {
        object.insert("x-overkeep-extension".into(), true.into());
    }
    if let Some(body) = &row.operation.body {
        object.insert("requestBody".into(), request(body, bodies));
    }
    described
}

fn request(body: &BodyShape, bodies: &mut Map<String, Json>) -> Json {
    let mut schema = body.schema.as_ref().clone();
    glossary::explain(&mut schema);
    let json = json!({ "example": example::of(&schema), "schema": match &body.title {
        Some(title) => {
            bodies.insert(title.clone(), schema);
            json!({ "$ref": format!("#/components/schemas/{title}") })
        }
        None => schema,
    } });
    let text = json!({ "example": example::PEM_REQUEST, "schema": { "type": "string", "description": "PEM." } });
    let of = |media: &str| {
        if media == super::operation::JSON {
            &json
        } else {
            &text
        }
    };
    let content: Map<String, Json> = body
        .media
        .iter()
        .map(|media| ((*media).to_owned(), of(media).clone()))
        .collect();
    json!({ "required": body.required, "content": content })
}

fn security(row: &Row) -> Json {
    match row.permission {
        Permission::Open => json!([]),
        _ if row.session_only => json!([{ SESSION_SCHEME: [] }]),
        _ => json!([{ SESSION_SCHEME: [] }, { TOKEN_SCHEME: [] }]),
    }
}

fn parameters(operation: &Operation, path: &str) -> Vec<Json> {
    let mut names = path
        .split('{')
        .skip(1)
        .filter_map(|part| part.split('}').next());
    let described = operation.parameters.iter().map(|parameter| {
        let name = if parameter.place == ParameterLocation::Path {
            names.next().unwrap_or_default()
        } else {
            &parameter.name
        };
        describe(parameter, name, path)
    });
    described.collect()
}

fn describe(parameter: &Parameter, name: &str, path: &str) -> Json {
    let mut schema = parameter.schema.clone();
    let mut words = None;
    if let Some(schema) = schema.as_object_mut() {
        if parameter.place == ParameterLocation::Path {
            schema.insert("description".into(), prose::of_path(path, name).into());
        }
        glossary::add(name, schema);
        words = schema.shift_remove("description");
    }
    json!({ "name": name, "in": parameter.place.word(), "required": parameter.required, "description": words, "schema": schema })
}

fn responses(row: &Row, error: &Json) -> Json {
    let mut responses = Map::new();
    if let Some(answer) = &row.operation.answer {
        let content: Map<String, Json> = answer
            .content
            .iter()
            .map(|(media, schema)| {
                (
                    (*media).to_owned(),
                    schema
                        .as_ref()
                        .map_or_else(|| json!({}), |schema| json!({ "schema": schema })),
                )
            })
            .collect();
        let response = json!({ "description": "Success.", "headers": headers(row, answer.headers), "content": content });
        responses.insert(answer.status.to_string(), response);
    }
    if let Some(preview) = &row.operation.preview {
        let done = responses
            .get("200")
            .and_then(|done| done.pointer("/content/application~1json/schema"));
        let schema = done.map_or_else(
            || preview.clone(),
            |done| json!({ "anyOf": [done, preview] }),
        );
        let text = if done.is_some() {
            "Success; for a preview, its result."
        } else {
            "The result of a preview."
        };
        let content = json!({ "application/json": { "schema": schema } });
        let own = row
            .operation
            .answer
            .as_ref()
            .map_or(&[] as &[Header], |answer| answer.headers);
        responses.insert(
            "200".into(),
            json!({ "description": text, "headers": headers(row, own), "content": content }),
        );
    }
    if row.method == "GET"
        && row
            .operation
            .answer
            .as_ref()
            .is_some_and(|answer| answer.headers.contains(&Header::Tag))
    {
        let text = "The record has the entity tag that `If-None-Match` names.";
        responses.insert(
            "304".into(),
            json!({ "description": text, "headers": headers(row, &[Header::Tag]) }),
        );
    }
    let refusal = |text: &str| json!({ "description": text, "content": { "application/json": { "schema": error } } });
    let mut statuses = row.operation.errors.clone();
    statuses.extend((row.permission != Permission::Open).then_some(401));
    statuses.extend((!row.operation.any_accept).then_some(400));
    statuses.extend(row.operation.body.iter().flat_map(|_| [408, 413]));
    statuses.extend([414, 429, 431, 503]);
    for status in statuses {
        let mut response = refusal(meaning(status));
        if let (408 | 429 | 503, Some(response)) = (status, response.as_object_mut()) {
            response.insert("headers".into(), Header::references([Header::RetryAfter]));
        }
        responses.insert(status.to_string(), response);
    }
    responses.insert("default".into(), refusal("Any other error."));
    Json::Object(responses)
}

/// The headers of a row's answer: those of every answer, those of sessions, and its own.
fn headers(row: &Row, own: &[Header]) -> Json {
    let of_session = [Header::ExpirationSeconds, Header::ExpiresAt]
        .into_iter()
        .filter(|_| row.permission != Permission::Open);
    let always = [
        Header::Instance,
        Header::UnknownMembers,
        Header::HiddenCharacters,
    ]
    .into_iter();
    Header::references(always.chain(of_session).chain(own.iter().copied()))
}

fn meaning(status: u16) -> &'static str {
    match status {
        400 => "The request breaks a rule; the cause names the field.",
        401 => "There is no session, or it lacks the permission.",
        404 => "The record does not exist.",
        408 => {
            "The body did not arrive within the time limit, or was given up because too many bodies were awaited."
        }
        409 => "The state of the record does not allow it.",
        412 => "The record has changed since it was read; a GET answers its current entity tag.",
        413 => "The body is larger than the limit.",
        414 => "The URL is longer than the limit.",
        429 => "Too many concurrent requests; try again after the seconds in `retry-after`.",
        431 => "The path and the headers are larger than the limit.",
        503 => {
            "The request exceeded the time limit, or the data file cannot be read or written at the moment."
        }
        _ => "Rejected.",
    }
}

/// The operation id: `getServicesIdConfigs` for `GET /services/{id}/configs`.
fn id(method: &str, path: &str) -> String {
    let words = path
        .split(['/', '-', '{', '}', '.'])
        .filter(|word| !word.is_empty());
    words.fold(method.to_lowercase(), |id, word| {
        id + &crate::body_schema::title(word, "")
    })
}
