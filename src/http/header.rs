//! Headers that answers say something in, as the documents describe them.

use serde_json::{Map, Value as Json, json};

/// A header of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    Instance,
    ExpirationSeconds,
    ExpiresAt,
    Session,
    Tag,
    TransferEncoding,
    RetryAfter,
    CacheControl,
    UnknownMembers,
}

impl Header {
    const ALL: [Self; 9] = [
        Self::Instance,
        Self::ExpirationSeconds,
        Self::ExpiresAt,
        Self::Session,
        Self::Tag,
        Self::TransferEncoding,
        Self::RetryAfter,
        Self::CacheControl,
        Self::UnknownMembers,
    ];

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instance => "ziti-instance-id",
            Self::ExpirationSeconds => "expiration-seconds",
            Self::ExpiresAt => "expires-at",
            Self::Session => "zt-session",
            Self::Tag => "etag",
            Self::TransferEncoding => "content-transfer-encoding",
            Self::RetryAfter => "retry-after",
            Self::CacheControl => "cache-control",
            Self::UnknownMembers => "overkeep-unknown-members",
        }
    }

    /// What it means, and the schema of its values.
    fn described(self) -> (&'static str, Json) {
        let text = json!({ "type": "string" });
        match self {
            Self::Instance => ("Another one after each start: what was learned of the controller may have changed.", text),
            Self::ExpirationSeconds => ("For how long the session lasts when nothing more is heard of it.", json!({ "type": "integer" })),
            Self::ExpiresAt => {
                ("When the session ends if nothing more is heard of it.", json!({ "type": "string", "format": "date-time" }))
            }
            Self::Session => ("The token of the session, as in the body.", json!({ "type": "string", "format": "uuid" })),
            Self::Tag => ("For `If-Match` of a later write.", text),
            Self::TransferEncoding => ("How the body is written.", json!({ "const": "base64" })),
            Self::CacheControl => ("What is on the way is kept by nobody.", json!({ "const": "no-store" })),
            Self::UnknownMembers => (
                "Members of the body, and parameters of the query as `query.NAME`, that are not known and changed nothing, percent-encoded, with commas between.",
                text,
            ),
            Self::RetryAfter => ("In how many seconds it is worth another try, if that is known.", json!({ "type": "integer" })),
        }
    }

    /// All of them, for the document's components.
    pub fn components() -> Json {
        let described = |header: Self| {
            let (description, schema) = header.described();
            json!({ "description": description, "required": !matches!(header, Self::RetryAfter | Self::UnknownMembers), "schema": schema })
        };
        Self::ALL.into_iter().map(|header| (header.name().to_owned(), described(header))).collect::<Map<_, _>>().into()
    }

    /// Some of them, for a response.
    pub fn references(headers: impl IntoIterator<Item = Self>) -> Json {
        let reference = |header: Self| json!({ "$ref": format!("#/components/headers/{}", header.name()) });
        headers.into_iter().map(|header| (header.name().to_owned(), reference(header))).collect::<Map<_, _>>().into()
    }
}
