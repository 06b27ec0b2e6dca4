//! The OpenAPI documents of the interfaces: a list, and their texts.

use model::{
    clock::Timestamp,
    entity::{HalLinks, Id, Tags},
    error::{Error, Result},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    answer::{Answer, Data, Page, Reply},
    call::Call,
    envelope::Pagination,
    extractor::Accept,
    gzip::Constant,
    openapi::{
        descriptions::Description,
        operation::{AnswerShape, JSON, Operation, Schemas},
    },
};

const CLIENT: &str = "edge-client";
const MANAGEMENT: &str = "edge-management";
const SPECS: [&str; 2] = [CLIENT, MANAGEMENT];
const YAML: &str = "text/yaml";

/// The entry of an OpenAPI document.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SpecDetail")]
pub(crate) struct Spec {
    #[serde(rename = "_links")]
    links: HalLinks,
    id: &'static str,
    created_at: Timestamp,
    updated_at: Timestamp,
    tags: Tags,
    name: &'static str,
}

fn named(name: &'static str) -> Spec {
    let links = HalLinks::default()
        .with("self", format_args!("specs/{name}"))
        .with("spec", format_args!("specs/{name}/spec"));
    let at = Timestamp::ZERO_TIME;
    Spec {
        links,
        id: name,
        created_at: at,
        updated_at: at,
        tags: Tags::default(),
        name,
    }
}

fn unknown(id: Id<Spec>) -> Error {
    Error::NotFound {
        kind: "spec",
        id: id.into_text(),
        field: None,
    }
}

/// GET /specs
pub(crate) async fn list(_: Call) -> Result<Page<Spec>> {
    let count = SPECS.len() as i64;
    let pagination = Pagination {
        limit: count,
        offset: 0,
        total_count: count,
    };
    Ok(Page {
        data: SPECS.into_iter().map(named).collect(),
        pagination,
        fields: None,
    })
}

/// GET /specs/{id}
pub(crate) async fn detail(_: Call, id: Id<Spec>) -> Result<Data<Spec>> {
    let known = SPECS.into_iter().find(|name| *name == id.as_str());
    known
        .map(|name| Data(named(name)))
        .ok_or_else(|| unknown(id))
}

/// The text of an OpenAPI document.
pub(crate) struct Body {
    media: &'static str,
    text: Constant,
}

impl Answer for Body {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        let document = serde_json::json!({ "type": "object" });
        operation.answer = Some(AnswerShape {
            status: 200,
            content: vec![(YAML, Some(document.clone())), (JSON, Some(document))],
            headers: &[],
        });
    }
    fn reply(self) -> Result<Reply> {
        Ok(Reply {
            status: 200,
            media: self.media,
            body: self.text.into(),
            headers: Vec::new(),
        })
    }
}

/// GET /specs/{id}/spec
pub(crate) async fn body(call: Call, id: Id<Spec>, accept: Accept) -> Result<Body> {
    let description = match id.as_str() {
        CLIENT => &call.state.descriptions.client,
        MANAGEMENT => &call.state.descriptions.management,
        _ => return Err(unknown(id)),
    };
    match accept.best(&[YAML, JSON]) {
        Some(JSON) => json(description),
        _ => Ok(Body {
            media: YAML,
            text: description.yaml()?,
        }),
    }
}

fn json(description: &Description) -> Result<Body> {
    Ok(Body {
        media: JSON,
        text: description.json()?,
    })
}

/// The OpenAPI document of an interface as JSON.
pub(crate) struct Document(Body);

impl Answer for Document {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.answer = Some(AnswerShape {
            status: 200,
            content: vec![(JSON, Some(serde_json::json!({ "type": "object" })))],
            headers: &[],
        });
    }
    fn reply(self) -> Result<Reply> {
        self.0.reply()
    }
}

/// GET /openapi.json and /swagger.json of the client interface
pub(crate) async fn client(call: Call) -> Result<Document> {
    json(&call.state.descriptions.client).map(Document)
}

/// GET /openapi.json and /swagger.json of the management interface
pub(crate) async fn management(call: Call) -> Result<Document> {
    json(&call.state.descriptions.management).map(Document)
}

/// GET /openapi.json of the controller's own interface
pub(crate) async fn overkeep(call: Call) -> Result<Document> {
    json(&call.state.descriptions.overkeep).map(Document)
}

/// GET /openapi.json of the fabric interface
pub(crate) async fn fabric(call: Call) -> Result<Document> {
    json(&call.state.descriptions.fabric).map(Document)
}
