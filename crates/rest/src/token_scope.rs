//! Scopes of API tokens: which operations a token may use. Everything about an operation follows
//! from its row.

use std::collections::BTreeSet;

use model::entity::{ApiToken, Record, api_token::READ};
use policy::change::KINDS;

use super::{change_mode, permission::Permission, row::Row};

/// First path segments of operations that change the caller's session, credentials or evidence. API
/// tokens have none of these.
const OF_SESSIONS: [&str; 5] = [
    "authenticate",
    "current-api-session",
    "current-identity",
    "posture-response",
    "posture-response-bulk",
];
/// Last path segments of operations that renew the certificate of the connection.
const OF_CERTIFICATES: [&str; 2] = ["extend", "extend-verify"];
/// Kinds whose records hold secrets of other callers. With such a secret, a token with a restricted
/// scope could do what its scope forbids.
const SECRETS: [&str; 2] = ["api-sessions", SESSIONS];
const SESSIONS: &str = "sessions";
/// A kind whose records hold secrets that create credentials.
const ENROLLMENTS: &str = "enrollments";
/// Path segments of kinds whose views show tokens that make a credential or verify an authority.
const ENROLLING: [&str; 6] = [
    "identities",
    "current-identity",
    "edge-routers",
    "transit-routers",
    "routers",
    "cas",
];
/// The kind of the tokens themselves: a restricted token must not create an unrestricted one.
const TOKENS: &str = "api-tokens";

const CREATE: &str = "create";
const UPDATE: &str = "update";
const DELETE: &str = "delete";
/// The network as one document: writing it creates, changes and deletes objects of every kind.
const NETWORK: &str = "/network";
/// First path segments of operations whose answers tell of records of every kind. They need a scope
/// without a list of kinds.
const OF_EVERY_KIND: [&str; 6] = [
    "network", "history", "events", "explain", "doctor", "expiring",
];
/// Path segments under which other kinds are named, too, and these kinds.
const NAMING: [(&str, &[&str]); 8] = [
    ("policy-advice", &["services", ROUTERS]),
    (
        "failed-service-requests",
        &["services", "service-policies", "posture-checks"],
    ),
    ("service-configs", &["services", "configs"]),
    ("circuits", &["identities", "services", ROUTERS]),
    ("hosting", &["identities", "services", ROUTERS]),
    ("channels", &["identities"]),
    ("online", &["identities", ROUTERS]),
    ("links", &[ROUTERS]),
];
/// Requests to routers for their state, in which there may be tokens of sessions.
const INSPECTIONS: &str = "inspections";
/// The part of the caller's identity that holds its one-time codes.
const CODES: &str = "mfa";
/// Path segments under which edge routers are shown and deleted, too.
const AMONG_ROUTERS: [&str; 2] = ["transit-routers", "routers"];
const ROUTERS: &str = "edge-routers";
/// The operation that shows the caller, and the one that shows an API token with its scope.
const OWN: &str = "/current-api-session";
const ONE_TOKEN: &str = "/api-tokens/{id}";

/// The words that scopes can have.
pub(crate) struct ScopeNames {
    pub kinds: BTreeSet<String>,
    pub actions: BTreeSet<String>,
}

impl ScopeNames {
    /// The kinds and actions of these rows.
    pub(crate) fn of<'r>(rows: impl Iterator<Item = &'r Row>) -> Self {
        let mut words = Self {
            kinds: BTreeSet::new(),
            actions: BTreeSet::new(),
        };
        for row in rows.filter(|row| row.permission != Permission::Open) {
            let first = literals(row)
                .next()
                .filter(|first| !OF_EVERY_KIND.contains(first));
            words.kinds.extend(first.map(str::to_owned));
            words.actions.insert(action(row).to_owned());
        }
        words
    }
}

/// The literal segments of a row's path.
fn literals(row: &Row) -> impl Iterator<Item = &str> {
    row.path
        .split('/')
        .filter(|part| !part.is_empty() && !part.starts_with('{'))
}

/// The action of a row: `read`, `create`, `update` or `delete`; the last segment of the path for
/// any other POST, such as `disable`.
fn action(row: &Row) -> &str {
    match row.method {
        "GET" => READ,
        "DELETE" => DELETE,
        "POST" => literals(row).skip(1).last().unwrap_or(CREATE),
        _ => UPDATE,
    }
}

/// Whether an operation shows the token of its caller: every token may ask what its own scope is.
pub(crate) fn is_own(row: &Row, ids: &[String], token: &Record<ApiToken>) -> bool {
    row.method == "GET" && row.path == ONE_TOKEN && matches!(ids, [id] if id == token.id.as_str())
}

/// Whether a token may use an operation. A preview counts as the action `read`.
pub(crate) fn permits(row: &Row, query: &str, token: &ApiToken) -> bool {
    let is_network = row.path == NETWORK;
    let is_preview =
        change_mode::is_preview(row, query) || is_network && change_mode::asks_for_preview(query);
    let action = if is_preview { READ } else { action(row) };
    let first = literals(row).next().unwrap_or_default();
    let shows_codes = first == "current-identity" && literals(row).any(|part| part == CODES);
    let is_of_every_kind = OF_EVERY_KIND.contains(&first);
    if shows_codes
        || AMONG_ROUTERS.contains(&first) && !token.covers(ROUTERS)
        || is_of_every_kind && !token.kinds.is_empty()
    {
        return false;
    }
    let is_kind =
        |part: &&str| *part == first || KINDS.iter().any(|entry| entry.kind.path == *part);
    let mut kinds = literals(row).filter(is_kind);
    if action == READ {
        // Every token may ask what it is.
        if row.path == OWN {
            return true;
        }
        let is_secret = |kind: &str| {
            token.is_restricted() && SECRETS.contains(&kind)
                || kind == ENROLLMENTS && !token.may(CREATE)
        };
        let mut named = NAMING
            .iter()
            .filter(|(part, _)| literals(row).any(|literal| literal == *part))
            .flat_map(|(_, kinds)| *kinds);
        return token.may(READ)
            && kinds.all(|kind| token.covers(kind) && !is_secret(kind))
            && named.all(|kind| token.covers(kind));
    }
    if is_network {
        return [CREATE, UPDATE, DELETE]
            .iter()
            .all(|action| token.may(action));
    }
    let opens_session = first == SESSIONS && row.method == "POST";
    let is_of_session = opens_session
        || OF_SESSIONS.contains(&first)
        || literals(row).any(|part| OF_CERTIFICATES.contains(&part));
    let is_own_kind = first == TOKENS && token.is_restricted();
    token.may(action) && kinds.all(|kind| token.covers(kind)) && !is_of_session && !is_own_kind
}

/// Whether the answer of an operation may hold tokens that an API token must not see: with one of
/// an enrollment, the caller could create a credential. An API token may see such tokens of kinds
/// whose records it may create.
pub(crate) fn hides_tokens(row: &Row, token: &ApiToken) -> bool {
    if token.is_restricted() && literals(row).any(|part| part == INSPECTIONS) {
        return true;
    }
    let may_create = |kind: &str| token.may(CREATE) && !token.self_service && token.covers(kind);
    let mut shown = literals(row).filter(|part| ENROLLING.contains(part));
    shown.any(|part| {
        !may_create(if part == "current-identity" {
            "identities"
        } else {
            part
        })
    })
}
