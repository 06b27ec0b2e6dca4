//! What the functions in the route tables answer: each answer describes itself and turns into a reply.

use std::pin::Pin;

use actix_web::web::Bytes;
use futures_util::Stream;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    envelope::{Empty, Envelope, ListEnvelope, Location, Meta, Pagination},
    gzip::Constant,
    header::Header,
    openapi::operation::{AnswerShape, JSON, Operation, Schemas},
};
use crate::{
    clock::Timestamp,
    entity::{Entity, Id, Links},
    error::{Error, Result},
};

/// The media type of a signed token (RFC 7519 section 10.3).
const JWT: &str = "application/jwt";

/// An answer on its way out.
pub struct Reply {
    pub status: u16,
    pub media: &'static str,
    pub body: Content,
    pub headers: Vec<(&'static str, String)>,
}

/// The body of a reply.
pub enum Content {
    Whole(Bytes),
    /// The same for everybody.
    Constant(Constant),
    /// As it comes into being, and how many bytes that holds at a time.
    Pieces(Pieces, usize),
}

/// Parts of a body, in order, none of them empty; behind an error comes nothing, and the client sees that the body breaks off. Not `Send`: they stay on the thread of their connection.
pub type Pieces = Pin<Box<dyn Stream<Item = Result<Vec<u8>>>>>;

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
    /// The value has no JSON form, which is a defect.
    pub fn json(status: u16, value: &impl Serialize) -> Result<Self> {
        let body = serde_json::to_vec(value).map_err(|e| Error::Internal(format!("an answer as JSON: {e}")))?;
        Ok(Self { status, media: JSON, body: body.into(), headers: Vec::new() })
    }
}

/// An answer of a function in a route table.
pub trait Answer: 'static {
    /// What it says of the operation.
    fn describe(operation: &mut Operation, schemas: &mut Schemas);

    /// The reply.
    ///
    /// # Errors
    /// It has no JSON form, which is a defect.
    fn reply(self) -> Result<Reply>;
}

fn json_answer<T: JsonSchema>(operation: &mut Operation, schemas: &mut Schemas, status: u16) {
    operation.answer = Some(AnswerShape { status, content: vec![(JSON, Some(schemas.answer::<T>()))], headers: &[] });
}

/// Done, with nothing to say.
pub struct Done;

impl Answer for Done {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        json_answer::<Envelope<Empty>>(operation, schemas, 200);
    }
    fn reply(self) -> Result<Reply> {
        Reply::json(200, &Envelope { data: Empty {}, meta: Meta::default() })
    }
}

/// Begun, and going on behind the answer.
pub struct Begun;

impl Answer for Begun {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        json_answer::<Envelope<Empty>>(operation, schemas, 202);
    }
    fn reply(self) -> Result<Reply> {
        Reply::json(202, &Envelope { data: Empty {}, meta: Meta::default() })
    }
}

/// A record was created.
pub struct Created(Location);

impl Created {
    /// This one.
    pub fn new<E: Entity>(id: &Id<E>) -> Self {
        Self(Location::of(id))
    }

    /// This one, to be found at a path below the base path that does not hold its id.
    pub fn at<E: Entity>(path: &str, id: &Id<E>) -> Self {
        Self(Location { links: Links::default().with("self", path), id: id.to_string() })
    }
}

impl Answer for Created {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        json_answer::<Envelope<Location>>(operation, schemas, 201);
    }
    fn reply(self) -> Result<Reply> {
        Reply::json(201, &Envelope { data: self.0, meta: Meta::default() })
    }
}

/// Data, status 200.
pub struct Shown<T>(pub T);

impl<T: Serialize + JsonSchema + 'static> Answer for Shown<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        json_answer::<Envelope<T>>(operation, schemas, 200);
    }
    fn reply(self) -> Result<Reply> {
        Reply::json(200, &Envelope { data: self.0, meta: Meta::default() })
    }
}

/// A record, with the entity tag by which it can be written back only if nobody else wrote meanwhile.
pub struct Tagged<T> {
    pub data: T,
    pub tag: String,
}

impl<T: Serialize + JsonSchema + 'static> Answer for Tagged<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Shown::<T>::describe(operation, schemas);
        if let Some(answer) = &mut operation.answer {
            answer.headers = &[Header::Tag];
        }
    }
    fn reply(self) -> Result<Reply> {
        let mut reply = Shown(self.data).reply()?;
        reply.headers.push((Header::Tag.name(), self.tag));
        Ok(reply)
    }
}

/// Data about something new, status 201.
pub struct Made<T>(pub T);

impl<T: Serialize + JsonSchema + 'static> Answer for Made<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        json_answer::<Envelope<T>>(operation, schemas, 201);
    }
    fn reply(self) -> Result<Reply> {
        Reply::json(201, &Envelope { data: self.0, meta: Meta::default() })
    }
}

/// Data without an envelope around it, status 200.
pub struct Bare<T>(pub T);

impl<T: Serialize + JsonSchema + 'static> Answer for Bare<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        json_answer::<T>(operation, schemas, 200);
    }
    fn reply(self) -> Result<Reply> {
        Reply::json(200, &self.0)
    }
}

/// A signed token, status 200.
pub struct Token(pub String);

impl Answer for Token {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        let text = serde_json::json!({ "type": "string" });
        operation.answer = Some(AnswerShape { status: 200, content: vec![(JWT, Some(text))], headers: &[] });
    }
    fn reply(self) -> Result<Reply> {
        Ok(Reply { status: 200, media: JWT, body: self.0.into_bytes().into(), headers: Vec::new() })
    }
}

/// A page of a list.
pub struct Page<T> {
    pub data: Vec<T>,
    pub pagination: Pagination,
    /// Left out where a list has none.
    pub fields: Option<Vec<&'static str>>,
}

impl<T: Serialize + JsonSchema + 'static> Answer for Page<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        json_answer::<ListEnvelope<T>>(operation, schemas, 200);
    }
    fn reply(self) -> Result<Reply> {
        Reply::json(200, &ListEnvelope { data: self.data, meta: Meta::of_list(self.pagination, self.fields) })
    }
}

/// A new session, with its token and its end in the headers too.
pub struct Opened<T> {
    pub data: T,
    pub token: String,
    /// In seconds, after which it ends unless it is used.
    pub timeout: u64,
    pub ends: Timestamp,
}

impl<T: Serialize + JsonSchema + 'static> Answer for Opened<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        Shown::<T>::describe(operation, schemas);
        if let Some(answer) = &mut operation.answer {
            answer.headers = &[Header::Session, Header::ExpirationSeconds, Header::ExpiresAt];
        }
    }
    fn reply(self) -> Result<Reply> {
        let mut reply = Shown(self.data).reply()?;
        reply.headers.extend([
            (Header::Session.name(), self.token),
            (Header::ExpirationSeconds.name(), self.timeout.to_string()),
            (Header::ExpiresAt.name(), self.ends.to_string()),
        ]);
        Ok(reply)
    }
}
