//! The headers of answers, with their descriptions for the OpenAPI documents.

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value as Json, json};

/// Headers of every answer: answers hold data of callers, and none is to be taken for another type
/// than it names. An answer may replace the first one.
pub(super) const OF_EVERY_ANSWER: [(&str, &str); 2] = [
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
];

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
    IgnoredMembers,
    HiddenCharacters,
    UnmatchableMembers,
}

impl Header {
    const ALL: [Self; 12] = [
        Self::Instance,
        Self::ExpirationSeconds,
        Self::ExpiresAt,
        Self::Session,
        Self::Tag,
        Self::TransferEncoding,
        Self::RetryAfter,
        Self::CacheControl,
        Self::UnknownMembers,
        Self::IgnoredMembers,
        Self::HiddenCharacters,
        Self::UnmatchableMembers,
    ];

    /// The name on the wire.
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
            Self::IgnoredMembers => "overkeep-ignored-members",
            Self::HiddenCharacters => "overkeep-hidden-characters",
            Self::UnmatchableMembers => "overkeep-unmatchable-members",
        }
    }

    /// The description, and the schema of the values.
    fn described(self) -> (&'static str, Json) {
        let text = json!({ "type": "string" });
        match self {
            Self::Instance => (
                "Changes at each start of the controller: cached data about it may be outdated.",
                text,
            ),
            Self::ExpirationSeconds => (
                "Seconds after which the session ends if it is not used.",
                json!({ "type": "integer" }),
            ),
            Self::ExpiresAt => (
                "When the session ends if it is not used.",
                json!({ "type": "string", "format": "date-time" }),
            ),
            Self::Session => (
                "The token of the session, as in the body.",
                json!({ "type": "string", "format": "uuid" }),
            ),
            Self::Tag => (
                "For `If-Match` of a later write, and `If-None-Match` of a later GET.",
                text,
            ),
            Self::TransferEncoding => ("The encoding of the body.", json!({ "const": "base64" })),
            Self::CacheControl => (
                "The answer must not be cached.",
                json!({ "const": "no-store" }),
            ),
            Self::UnknownMembers => (
                "Members of the body, and parameters of the query as `query.NAME`, that are unknown and were ignored; percent-encoded, separated by commas.",
                text,
            ),
            Self::IgnoredMembers => (
                "Members of the body that only creation sets and that differ from the stored values; they were ignored; separated by commas.",
                text,
            ),
            Self::HiddenCharacters => (
                "Members of the body whose names have control characters, characters that change the direction of text, or characters without width; percent-encoded, separated by commas.",
                text,
            ),
            Self::UnmatchableMembers => (
                "Members of the record that were accepted, although no endpoint, certificate or token can ever match them; separated by commas.",
                text,
            ),
            Self::RetryAfter => (
                "Seconds after which the request may be repeated, if known.",
                json!({ "type": "integer" }),
            ),
        }
    }

    /// What is told to people about the members that a warning names; `None` for a header that is
    /// no warning.
    fn warning(self) -> Option<&'static str> {
        match self {
            Self::UnknownMembers => Some("unknown, and ignored"),
            Self::IgnoredMembers => Some("set only by creation, and ignored"),
            Self::HiddenCharacters => Some("with characters that are not seen"),
            Self::UnmatchableMembers => Some("nothing can ever match"),
            _ => None,
        }
    }

    /// The warnings in the headers of an answer, a line for each. `value` gives the value of a
    /// header.
    pub fn warnings<V: AsRef<str>>(value: impl Fn(&str) -> Option<V>) -> Vec<String> {
        let line = |header: Self| {
            let (said, members) = (header.warning()?, value(header.name())?);
            Some(format!(
                "{said}: {}",
                percent_decode_str(members.as_ref()).decode_utf8_lossy()
            ))
        };
        Self::ALL.into_iter().filter_map(line).collect()
    }

    /// The names of the headers that pages of other origins may read.
    pub(crate) fn exposed() -> String {
        let is_exposed =
            |header: &Self| !matches!(header, Self::TransferEncoding | Self::CacheControl);
        Self::ALL
            .into_iter()
            .filter(is_exposed)
            .map(Self::name)
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// All headers, for the components of a document.
    pub(crate) fn components() -> Json {
        let described = |header: Self| {
            let (description, schema) = header.described();
            let is_optional = header == Self::RetryAfter || header.warning().is_some();
            json!({ "description": description, "required": !is_optional, "schema": schema })
        };
        Self::ALL
            .into_iter()
            .map(|header| (header.name().to_owned(), described(header)))
            .collect::<Map<_, _>>()
            .into()
    }

    /// References to headers, for a response.
    pub(crate) fn references(headers: impl IntoIterator<Item = Self>) -> Json {
        let reference =
            |header: Self| json!({ "$ref": format!("#/components/headers/{}", header.name()) });
        headers
            .into_iter()
            .map(|header| (header.name().to_owned(), reference(header)))
            .collect::<Map<_, _>>()
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_name_members() {
        let told = Header::warnings(|name| match name {
            "overkeep-unknown-members" => Some("query.a%2Cb, name"),
            "overkeep-ignored-members" => Some("certPem"),
            "overkeep-hidden-characters" => Some("tags.%E2%80%AEx"),
            "overkeep-unmatchable-members" => Some("process.hashes, issuer"),
            "etag" => Some("\"1\""),
            _ => None,
        });
        let members: Vec<&str> = told
            .iter()
            .map(|line| line.split_once(": ").unwrap().1)
            .collect();
        assert_eq!(
            members,
            [
                "query.a,b, name",
                "certPem",
                "tags.\u{202e}x",
                "process.hashes, issuer"
            ]
        );
        assert!(Header::warnings(|_| None::<&str>).is_empty());
    }
}
