//! Rows of the history as lines for people: when, who, what, and below it what a change changed.

use model::{entity::kebab, hidden_text::shown};
use serde_json::Value as Json;

use super::api::output;

/// The most characters of a value of a changed member.
const WIDEST: usize = 60;

/// The lines of a row.
pub(super) fn of(row: &Json) -> Vec<String> {
    let at = text(row, "/at");
    // 2026-11-21T22:29:56.871Z
    let at = at.get(..19).map_or_else(
        || at.to_owned(),
        |seconds| format!("{}Z", seconds.replace('T', " ")),
    );
    let mut lines = vec![shown(&format!("{at}  {}  {}", author(row), what(row)))];
    lines.extend(
        output::access(&by_relation(row))
            .iter()
            .map(|line| format!("    {line}")),
    );
    if ["update", "connect", "disconnect"].contains(&text(row, "/action")) {
        lines.extend(members(row));
    }
    lines
}

fn text<'j>(json: &'j Json, path: &str) -> &'j str {
    json.pointer(path)
        .and_then(Json::as_str)
        .unwrap_or_default()
}

/// Who did it: the name of an identity and of its token, or what else it was.
fn author(row: &Json) -> String {
    let of = |path: &str| Some(text(row, path)).filter(|text| !text.is_empty());
    let from = of("/by/address")
        .map(|address| format!(" from {address}"))
        .unwrap_or_default();
    let token = of("/by/token")
        .map(|token| format!(" with the token {token}"))
        .unwrap_or_default();
    match text(row, "/by/who") {
        "identity" => format!(
            "{}{token}{from}",
            of("/by/name")
                .or_else(|| of("/by/identity"))
                .unwrap_or("an identity")
        ),
        "local" => "the host".into(),
        "system" => "the controller".into(),
        "anonymous" => format!("somebody{from}"),
        "several" => "several".into(),
        other => other.into(),
    }
}

/// What was done.
fn what(row: &Json) -> String {
    let kind = kebab(text(row, "/kind")).replace('-', " ");
    let name = Some(text(row, "/name"))
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| text(row, "/id"));
    match text(row, "/action") {
        "login" => format!("logged in{}", times(row, "/after")),
        "logout" => format!("logged out{}", times(row, "/before")),
        "refusal" => refusal(row, name),
        "access" => format!("changed access: {kind} {name}"),
        action => format!("{action} {kind} {name}"),
    }
}

fn refusal(row: &Json, name: &str) -> String {
    let of =
        |member: &str| Some(text(row, &format!("/after/{member}"))).filter(|text| !text.is_empty());
    let what = of("what").unwrap_or("requests");
    let service = of("serviceName")
        .or_else(|| of("service"))
        .map(|service| format!(" to {service}"))
        .unwrap_or_default();
    let name = if name.is_empty() {
        String::new()
    } else {
        format!(" of {name}")
    };
    let tried = of("username")
        .map(|tried| format!(", with the user name {tried}"))
        .unwrap_or_default();
    let reason = of("reason")
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    format!(
        "refused {what}{name}{service}{tried}{}{reason}",
        times(row, "/after")
    )
}

/// How often, if more than once.
fn times(row: &Json, side: &str) -> String {
    let times = row
        .pointer(&format!("{side}/times"))
        .and_then(Json::as_u64)
        .unwrap_or(1);
    if times > 1 {
        format!(", {times} times")
    } else {
        String::new()
    }
}

/// The gained and lost access of a row, by relation, as previews have it.
fn by_relation(row: &Json) -> Json {
    let access = row.get("access").unwrap_or(&Json::Null);
    let mut relations = serde_json::Map::new();
    for turn in ["gained", "lost"] {
        for (relation, pairs) in access
            .get(turn)
            .and_then(Json::as_object)
            .into_iter()
            .flatten()
        {
            let entry = relations
                .entry(relation.clone())
                .or_insert_with(|| serde_json::Map::new().into());
            if let Some(entry) = entry.as_object_mut() {
                entry.insert(turn.to_owned(), pairs.clone());
            }
        }
    }
    relations.into()
}

/// The members that changed, before and after.
fn members(row: &Json) -> Vec<String> {
    let side = |side: &str| row.get(side).and_then(Json::as_object);
    let (before, after) = (side("before"), side("after"));
    let mut names: Vec<&String> = [before, after]
        .into_iter()
        .flatten()
        .flat_map(serde_json::Map::keys)
        .collect();
    names.sort_unstable();
    names.dedup();
    let value = |side: Option<&serde_json::Map<String, Json>>, name: &str| {
        value(side.and_then(|members| members.get(name)))
    };
    names
        .into_iter()
        .map(|name| {
            shown(&format!(
                "    {name}: {} -> {}",
                value(before, name),
                value(after, name)
            ))
        })
        .collect()
}

/// A value in few words.
fn value(value: Option<&Json>) -> String {
    let whole = match value {
        None | Some(Json::Null) => "none".to_owned(),
        Some(Json::String(text)) if text.is_empty() => "blank".to_owned(),
        Some(Json::String(text)) => text.clone(),
        Some(Json::Array(items)) if items.is_empty() => "none".to_owned(),
        Some(Json::Array(items)) if items.iter().all(Json::is_string) => items
            .iter()
            .filter_map(Json::as_str)
            .collect::<Vec<_>>()
            .join(", "),
        Some(other) => other.to_string(),
    };
    if whole.chars().count() <= WIDEST {
        whole
    } else {
        whole.chars().take(WIDEST - 1).chain(['…']).collect()
    }
}
