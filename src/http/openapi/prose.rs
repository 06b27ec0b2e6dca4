//! What the documents say in sentences: about an interface as a whole, about an operation, and about the ids in its path.

use crate::http::{permission::Permission, row::Row};

/// What somebody should know before the first request.
pub const INTRODUCTION: &str = "\
The controller of a private overlay network: identities, services and the policies that decide who reaches what.

**Sessions.** `POST /authenticate` opens a session; its `token` goes with every further request, in the header `zt-session`. A session ends when \
nothing is heard from it for some time: every answer says in `expires-at` and `expiration-seconds` how long that is.

**Answers** are JSON: what was asked for in `data`, what is said beside it in `meta`. A refusal has an `error` with a `code` for programs, a \
`message` for people, a `requestId` under which the log has more, and mostly a `cause`, whose `field` names what is to blame. If several things \
are wrong, `violations` has them all.

**Lists** come in pages: `limit` (10 unless set, 500 at most) and `offset`; `meta.pagination.totalCount` says how many there are in all. `filter` \
chooses: `name contains \"data\"`, `anyOf(roleAttributes) = \"web\"`, `createdAt > datetime(2026-01-01T00:00:00Z)`, `tags.team = \"sales\"`, joined by \
`and`, `or`, `not` and brackets. It may end in `sort by name desc skip 20 limit 10`, and `limit none` takes all. `meta.filterableFields` names what a \
filter may speak of; a name whose member the list does not show to its caller is refused. In a query string all of it is percent-encoded, quotation marks above all: `name%3D%22web%22`.

**Writing.** `POST` creates and answers the id. `PUT` replaces: what is left out becomes what it is when nothing is said. `PATCH` changes what it \
names: what is left out or null stays. Members that are not known change nothing, and the header `overkeep-unknown-members` names them; with \
`?strict=true` they are refused. Some members are set once, when the record is created; a later write does not change them, and does not fail. \
A GET of one record answers an `ETag`; sent as `If-Match` with a write, it keeps the writer from undoing what somebody else did meanwhile.";

/// Under which heading an operation stands.
pub fn heading(path: &str) -> &str {
    match path.split('/').nth(1).unwrap_or_default() {
        "" | "version" | "protocols" | "enumerated-capabilities" | ".well-known" | "specs" | "openapi.json" | "swagger.json" => {
            "information"
        }
        first => first,
    }
}

/// What a row does, if it says nothing of its own.
pub fn summary(method: &str, path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && !part.starts_with('{')).collect();
    let (first, last) = (parts.first().copied().unwrap_or_default(), parts.last().copied().unwrap_or_default());
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

/// Who may call a row, and what its method means.
pub fn description(row: &Row) -> String {
    let who = match row.permission {
        Permission::Open => "Open to everybody.",
        Permission::Partial => "For whoever has a session, also while its second factor is outstanding.",
        Permission::User => "For whoever has a session.",
        Permission::Admin => "For administrators.",
    };
    let how = match row.method {
        "PUT" if row.path.ends_with("{id}") => {
            " What the body leaves out becomes what it is when nothing is said; members that are set once keep their value."
        }
        "PATCH" => " What the body leaves out or says null for stays as it is; lists and maps are replaced whole.",
        "DELETE" if row.operation.errors.contains(&409) => " Refused with 409 while other records refer to it.",
        "GET" if row.operation.parameters.iter().any(|parameter| parameter.name == "filter") => {
            " `meta.filterableFields` of the answer names what `filter` and `sort` may speak of."
        }
        _ => "",
    };
    format!("{who}{how}")
}

/// What the value of a path's parameter is.
pub fn of_path(path: &str, parameter: &str) -> String {
    let before = path.split('/').take_while(|part| *part != format!("{{{parameter}}}")).last().unwrap_or_default();
    match parameter.strip_suffix("Id") {
        Some(named) => format!("The id of the {named}."),
        None => format!("The id of the {}.", one(before)),
    }
}

/// A path segment in the plural: `external-jwt-signers` as `external JWT signers`.
fn several(segment: &str) -> String {
    match segment {
        "cas" => "certificate authorities".into(),
        "mfa" => "one-time codes".into(),
        other => other.replace('-', " ").replace("jwt", "JWT").replace("api ", "API "),
    }
}

/// The same in the singular.
fn one(segment: &str) -> String {
    let several = several(segment);
    match (several.strip_suffix("ies"), several.strip_suffix('s')) {
        (Some(stem), _) => format!("{stem}y"),
        (None, Some(stem)) => stem.into(),
        (None, None) => several,
    }
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'A']) { "an" } else { "a" }
}
