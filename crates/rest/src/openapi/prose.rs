//! The prose of the OpenAPI documents: about an interface, an operation, and the ids in its path.

use model::entity::{Kind, singular};
use policy::change::KINDS;

use crate::{permission::Permission, row::Row};

/// The introduction of each document.
pub(crate) const INTRODUCTION: &str = "\
The controller of a private overlay network: identities, services and the policies that decide who reaches what.

**Sessions.** `POST /authenticate` opens a session. Send its `token` with every further request in the header `zt-session`. A session ends \
when it has not been used for some time; every answer gives that time in `expires-at` and `expiration-seconds`.

**Answers** are JSON: the result in `data`, metadata in `meta`. An error has a `code` for programs, a `message` for people, a `requestId` that \
is also in the log, and usually a `cause`, whose `field` names the wrong member. If several rules are broken, `violations` lists them all.

**Lists** come in pages: `limit` (10 by default, at most 500) and `offset`; `meta.pagination.totalCount` is the number of all entries. `filter` \
selects entries: `name contains \"data\"`, `anyOf(roleAttributes) = \"web\"`, `createdAt > datetime(2026-01-01T00:00:00Z)`, `tags.team = \"sales\"`, joined by \
`and`, `or`, `not` and brackets. It may end in `sort by name desc skip 20 limit 10`, and `limit none` takes all. `meta.filterableFields` lists the names for \
filters; a name whose member the list does not show to its caller is rejected. A query string must be percent-encoded, above all quotation marks: `name%3D%22web%22`.

**Writing.** `POST` creates a record and answers its id. `PUT` replaces a record: members that the body lacks are reset to their defaults. `PATCH` changes \
the given members; members that are missing or null are unchanged. Unknown members are ignored and named in the header `overkeep-unknown-members`; with \
`?strict=true` they are rejected. Some members are set only at creation; a later write does not change them, and the header `overkeep-ignored-members` names those whose \
value differs; with `?strict=true` it is rejected. \
A GET of one record answers an `ETag`; sent as `If-Match` with a write, it prevents overwriting changes that others made meanwhile.";

/// The heading of an operation in the document.
pub(crate) fn heading(path: &str) -> &str {
    match path.split('/').nth(1).unwrap_or_default() {
        ""
        | "version"
        | "protocols"
        | "enumerated-capabilities"
        | ".well-known"
        | "specs"
        | "openapi.json"
        | "swagger.json" => "information",
        first => first,
    }
}

/// The default summary of a row.
pub(crate) fn summary(method: &str, path: &str) -> String {
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && !part.starts_with('{'))
        .collect();
    let (first, last) = (
        parts.first().copied().unwrap_or_default(),
        parts.last().copied().unwrap_or_default(),
    );
    let (one, several) = (one(last), several(last));
    match method {
        "GET" if path.ends_with('}') => format!("Shows one {one}."),
        "GET" if parts.len() > 1 => format!("Lists the {several} of one {}.", self::one(first)),
        "GET" => format!("Lists {several}."),
        "POST" => format!("Creates {} {one}.", article(&one)),
        "PUT" => format!("Replaces one {one}."),
        "PATCH" => format!("Changes some members of one {one}."),
        _ => format!("Deletes one {one}."),
    }
}

/// The description of a row: who may call it, and what its method does.
pub(crate) fn description(row: &Row) -> String {
    let who = match row.permission {
        Permission::Open => "Requires no session.",
        Permission::Partial => "Requires a session; its second factor may be outstanding.",
        Permission::User => "Requires a session.",
        Permission::Admin => "Requires an administrator's session.",
    };
    let how = match row.method {
        "PUT" if row.path.ends_with("{id}") => {
            " Members that the body lacks are reset to their defaults; members that are set only at creation keep their value."
        }
        "PATCH" => {
            " Members that the body lacks or sets to null are unchanged; lists and maps are replaced as a whole."
        }
        "DELETE" if row.operation.errors.contains(&409) => {
            " Rejected with 409 while other records refer to it."
        }
        "GET"
            if row
                .operation
                .parameters
                .iter()
                .any(|parameter| parameter.name == "filter") =>
        {
            " `meta.filterableFields` of the answer lists the names for `filter` and `sort`."
        }
        _ => "",
    };
    format!("{who}{how}")
}

/// The description of a path parameter.
pub(crate) fn of_path(path: &str, parameter: &str) -> String {
    let before = path
        .split('/')
        .take_while(|part| *part != format!("{{{parameter}}}"))
        .last()
        .unwrap_or_default();
    match parameter.strip_suffix("Id") {
        Some(named) => format!("The id of the {named}."),
        None => format!("The id of the {}.", one(before)),
    }
}

/// A path segment as words in the plural: `external JWT signers` for `external-jwt-signers`.
fn several(segment: &str) -> String {
    kind(segment).map_or_else(|| segment.replace('-', " "), |kind| kind.nouns())
}

/// Like [`several`], in the singular.
fn one(segment: &str) -> String {
    kind(segment).map_or_else(
        || singular(&segment.replace('-', " ")),
        |kind| kind.noun.to_owned(),
    )
}

/// The kind whose records are at a path segment.
fn kind(segment: &str) -> Option<Kind> {
    KINDS
        .iter()
        .map(|entry| entry.kind)
        .find(|kind| kind.path == segment)
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'A']) {
        "an"
    } else {
        "a"
    }
}
