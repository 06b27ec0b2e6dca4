//! Conditional requests (RFC 9110 section 13): entity tags of records, and those that a client
//! sends.

use actix_web::http::header::HeaderMap;
use model::{
    entity::{Entity, Record},
    error::Result,
};

use super::{answer::Reply, body, header::Header};

/// The strong entity tag of a record: the time of its last change and a checksum of its content.
///
/// # Errors
/// The record cannot be encoded, which is a defect.
pub(crate) fn entity_tag<E: Entity>(record: &Record<E>) -> Result<String> {
    let sum = crc32fast::hash(&store::encode(record)?);
    Ok(format!("\"{:x}-{sum:08x}\"", record.updated_at.millis()))
}

/// Whether a list of entity tags has this one, or is `*`. The comparison is weak.
pub(crate) fn lists(known: &str, tag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    known.trim() == "*" || known.split(',').any(|one| opaque(one) == opaque(tag))
}

/// Whether a list of entity tags has a record's tag, which may be followed by that of a view. The
/// comparison is strong.
pub(crate) fn lists_record(known: &str, record: &str) -> bool {
    let of_record = |tag: &str| {
        let rest = tag.strip_prefix(record.trim_end_matches('"'));
        rest.is_some_and(|rest| rest == "\"" || rest.starts_with('-') && rest.ends_with('"'))
    };
    known.trim() == "*" || known.split(',').any(|one| of_record(one.trim()))
}

/// A successful reply, or 304 where `If-None-Match` names its entity tag.
pub(crate) fn unless_known(reply: Reply, asked: &HeaderMap) -> Reply {
    let tag = reply
        .headers
        .iter()
        .find(|(name, _)| *name == Header::Tag.name())
        .map(|(_, tag)| tag);
    let known = body::list(asked, "if-none-match");
    let is_known = reply.status == 200
        && known
            .zip(tag)
            .is_some_and(|(known, tag)| lists(&known, tag));
    if is_known {
        Reply {
            status: 304,
            body: Vec::new().into(),
            ..reply
        }
    } else {
        reply
    }
}
