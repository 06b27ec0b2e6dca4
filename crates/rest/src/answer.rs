//! The answer types of the functions in the route tables. Each type describes itself in the OpenAPI
//! document and converts into a reply.

use std::pin::Pin;

use actix_web::web::Bytes;
use futures_util::Stream;
use model::{
    clock::Timestamp,
    entity::{Entity, HalLinks, Id},
    error::{Error, Result},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    envelope::{Empty, Envelope, ListEnvelope, Location, Meta, Pagination},
    gzip::Constant,
    header::Header,
    openapi::operation::{AnswerShape, JSON, Operation, Schemas},
};

/// The media type of a signed token (RFC 7519 section 10.3).
const JWT: &str = "application/jwt";

/// A reply before it is sent.
pub struct Reply {
    pub status: u16,
    pub media: &'static str,
    pub body: Content,
    pub headers: Vec<(&'static str, String)>,
}

/// The body of a reply.
pub enum Content {
    Whole(Bytes),
    /// The same for every caller; may be compressed once.
    Constant(Constant),
    /// A streamed body, and the number of bytes it holds in memory at a time.
    Pieces(Pieces, usize),
}

/// The parts of a body in order, none of them empty. After an error no part follows, and the client
/// sees that the body is incomplete. The stream is not `Send`, because it stays on the thread of
/// its connection.
pub(crate) type Pieces = Pin<Box<dyn Stream<Item = Result<Vec<u8>>>>>;

impl From<Vec<u8>> for Content {
    fn from(body: Vec<u8>) -> Self {
        Self::Whole(body.into())
    }
}

impl From<Constant> for Content {
    fn from(body: Constant) -> Self {
        Self::Constant(body)
    }
}

impl From<Bytes> for Content {
    fn from(body: Bytes) -> Self {
        Self::Whole(body)
    }
}

impl Reply {
    /// A JSON reply.
    ///
    /// # Errors
    /// The value cannot be serialized, which is a defect.
    pub fn json(status: u16, value: &impl Serialize) -> Result<Self> {
        let body = serde_json::to_vec(value)
            .map_err(|e| Error::Internal(format!("cannot write an answer as JSON: {e}")))?;
        Ok(Self {
            status,
            media: JSON,
            body: body.into(),
            headers: Vec::new(),
        })
    }
}

/// An answer type of a function in a route table.
pub(crate) trait Answer: 'static {
    /// Adds the answer to the description of the operation.
    fn describe(operation: &mut Operation, schemas: &mut Schemas);

    /// The reply.
    ///
    /// # Errors
    /// The value cannot be serialized, which is a defect.
    fn reply(self) -> Result<Reply>;
}

fn json_answer<T: JsonSchema>(operation: &mut Operation, schemas: &mut Schemas, status: u16) {
    operation.answer = Some(AnswerShape {
        status,
        content: vec![(JSON, Some(schemas.answer::<T>()))],
        headers: &[],
    });
}

/// Success without data, status 200.
pub(crate) struct NoData;

impl Answer for NoData {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        json_answer::<Envelope<Empty>>(operation, schemas, 200);
    }
    fn reply(self) -> Result<Reply> {
        Reply::json(
            200,
            &Envelope {
                data: Empty {},
                meta: Meta::default(),
            },
        )
    }
}

/// A record was changed, without data, status 200.
#[derive(Default)]
pub(crate) struct Edited {
    /// Members of the body that only creation sets and that were ignored.
    pub ignored: Vec<String>,
    /// Members that nothing can ever match.
    pub unmatchable: Vec<String>,
}

impl Answer for Edited {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        NoData::describe(operation, schemas);
        if let Some(answer) = &mut operation.answer {
            answer.headers = &[Header::IgnoredMembers, Header::UnmatchableMembers];
        }
    }
    fn reply(self) -> Result<Reply> {
        let mut reply = NoData.reply()?;
        list(&mut reply, Header::IgnoredMembers, &self.ignored);
        list(&mut reply, Header::UnmatchableMembers, &self.unmatchable);
        Ok(reply)
    }
}

/// Names members in a header of a reply, if there are any.
fn list(reply: &mut Reply, header: Header, members: &[String]) {
    if !members.is_empty() {
        reply.headers.push((header.name(), members.join(", ")));
    }
}

/// Accepted; the work continues after the answer. Status 202.
pub(crate) struct Accepted;

impl Answer for Accepted {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        json_answer::<Envelope<Empty>>(operation, schemas, 202);
    }
    fn reply(self) -> Result<Reply> {
        Reply::json(
            202,
            &Envelope {
                data: Empty {},
                meta: Meta::default(),
            },
        )
    }
}

/// The location of a created record, status 201.
pub(crate) struct CreatedLocation {
    location: Location,
    /// Members that nothing can ever match.
    unmatchable: Vec<String>,
}

impl CreatedLocation {
    /// The record with this id, at its usual path.
    pub(crate) fn new<E: Entity>(id: &Id<E>) -> Self {
        Self {
            location: Location::of(id),
            unmatchable: Vec::new(),
        }
    }

    /// The same, with the members of the record that nothing can ever match.
    #[must_use]
    pub(crate) fn naming(self, unmatchable: Vec<String>) -> Self {
        Self {
            unmatchable,
            ..self
        }
    }

    /// The record with this id, at another path below the base path.
    pub(crate) fn at<E: Entity>(path: &str, id: &Id<E>) -> Self {
        let location = Location {
            links: HalLinks::default().with("self", path),
            id: id.to_string(),
        };
        Self {
            location,
            unmatchable: Vec::new(),
        }
    }
}

impl Answer for CreatedLocation {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        json_answer::<Envelope<Location>>(operation, schemas, 201);
        if let Some(answer) = &mut operation.answer {
            answer.headers = &[Header::UnmatchableMembers];
        }
    }
    fn reply(self) -> Result<Reply> {
        let mut reply = Reply::json(
            201,
            &Envelope {
                data: self.location,
                meta: Meta::default(),
            },
        )?;
        list(&mut reply, Header::UnmatchableMembers, &self.unmatchable);
        Ok(reply)
    }
}

/// Data, status 200.
pub(crate) struct Data<T>(pub T);

impl<T: Serialize + JsonSchema + 'static> Answer for Data<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        json_answer::<Envelope<T>>(operation, schemas, 200);
    }
    fn reply(self) -> Result<Reply> {
        Reply::json(
            200,
            &Envelope {
                data: self.0,
                meta: Meta::default(),
            },
        )
    }
}

/// A record with the entity tag by which a later write can detect changes by others. The tag in the
/// header also tells views of the same record apart, which depend on other records and on the time,
/// so that a client is not told that it knows a view that has changed.
pub(crate) struct Tagged<T> {
    pub data: T,
    /// The tag of the record, with quotation marks.
    pub tag: String,
}

impl<T: Serialize + JsonSchema + 'static> Answer for Tagged<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Data::<T>::describe(operation, schemas);
        if let Some(answer) = &mut operation.answer {
            answer.headers = &[Header::Tag];
        }
    }
    fn reply(self) -> Result<Reply> {
        let mut reply = Data(self.data).reply()?;
        let view = if let Content::Whole(body) = &reply.body {
            crc32fast::hash(body)
        } else {
            0
        };
        reply.headers.push((
            Header::Tag.name(),
            format!("{}-{view:08x}\"", self.tag.trim_end_matches('"')),
        ));
        Ok(reply)
    }
}

/// Data about a new resource, status 201.
pub(crate) struct CreatedData<T>(pub T);

impl<T: Serialize + JsonSchema + 'static> Answer for CreatedData<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        json_answer::<Envelope<T>>(operation, schemas, 201);
    }
    fn reply(self) -> Result<Reply> {
        Reply::json(
            201,
            &Envelope {
                data: self.0,
                meta: Meta::default(),
            },
        )
    }
}

/// Data without an envelope around it, status 200.
pub(crate) struct BareJson<T>(pub T);

impl<T: Serialize + JsonSchema + 'static> Answer for BareJson<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        json_answer::<T>(operation, schemas, 200);
    }
    fn reply(self) -> Result<Reply> {
        Reply::json(200, &self.0)
    }
}

/// A signed token, status 200.
pub(crate) struct SignedToken(pub String);

impl Answer for SignedToken {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        let text = serde_json::json!({ "type": "string" });
        operation.answer = Some(AnswerShape {
            status: 200,
            content: vec![(JWT, Some(text))],
            headers: &[],
        });
    }
    fn reply(self) -> Result<Reply> {
        Ok(Reply {
            status: 200,
            media: JWT,
            body: self.0.into_bytes().into(),
            headers: Vec::new(),
        })
    }
}

/// A page of a list.
pub(crate) struct Page<T> {
    pub data: Vec<T>,
    pub pagination: Pagination,
    /// The filterable names; `None` for a list without filters.
    pub fields: Option<Vec<&'static str>>,
}

impl<T: Serialize + JsonSchema + 'static> Answer for Page<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        json_answer::<ListEnvelope<T>>(operation, schemas, 200);
    }
    fn reply(self) -> Result<Reply> {
        Reply::json(
            200,
            &ListEnvelope {
                data: self.data,
                meta: Meta::of_list(self.pagination, self.fields),
            },
        )
    }
}

/// A new session; its token and end are also in the headers.
pub(crate) struct NewSessionAnswer<T> {
    pub data: T,
    pub token: String,
    /// Seconds after which an unused session ends.
    pub timeout: u64,
    pub ends: Timestamp,
}

impl<T: Serialize + JsonSchema + 'static> Answer for NewSessionAnswer<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Data::<T>::describe(operation, schemas);
        if let Some(answer) = &mut operation.answer {
            answer.headers = &[
                Header::Session,
                Header::ExpirationSeconds,
                Header::ExpiresAt,
            ];
        }
    }
    fn reply(self) -> Result<Reply> {
        let mut reply = Data(self.data).reply()?;
        reply.headers.extend([
            (Header::Session.name(), self.token),
            (Header::ExpirationSeconds.name(), self.timeout.to_string()),
            (Header::ExpiresAt.name(), self.ends.to_string()),
        ]);
        Ok(reply)
    }
}
