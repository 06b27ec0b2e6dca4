//! Output formats of answers: table, JSON, YAML, names.

use std::{env, io::IsTerminal};

use serde::Serialize;
use serde_json::Value as Json;

use crate::hidden_text::{self, shown};

/// Members that a table leaves out.
const LEFT_OUT: [&str; 5] = ["_links", "createdAt", "updatedAt", "tags", "isSystem"];
/// A secret that the table of a list leaves out.
const SECRET: &str = "token";
/// The suffix of members that hold the names of what another member refers to.
const NAMES: &str = "Display";
/// The maximum characters of a cell.
const WIDEST: usize = 48;
/// The spaces between two columns.
const GAP: usize = 2;

/// An answer in an output format. A table puts the members in `order` first.
///
/// # Errors
/// It cannot be serialized, which is a defect.
pub fn text(data: &Json, format: &str, order: &[String]) -> Result<String, String> {
    match format {
        "json" => json(data),
        "yaml" => yaml(data),
        "name" => Ok(entries(data).map(|entry| shown(&name(entry))).collect::<Vec<_>>().join("\n")),
        _ => Ok(table(data, width(), order)),
    }
}

/// A value as JSON, in lines. Characters that a terminal obeys or that nobody sees are escaped.
///
/// # Errors
/// It cannot be serialized, which is a defect.
pub(crate) fn json(value: &impl Serialize) -> Result<String, String> {
    serde_json::to_string_pretty(value).map(|text| hidden_text::json(&text)).map_err(|error| error.to_string())
}

/// A value as YAML, with the same escapes.
fn yaml(data: &Json) -> Result<String, String> {
    let text = serde_saphyr::to_string(&marked(data)).map_err(|error| error.to_string())?;
    Ok(hidden_text::unmarked(text.trim_end()))
}

fn marked(data: &Json) -> Json {
    match data {
        Json::String(text) => hidden_text::marked(text).into(),
        Json::Array(list) => list.iter().map(marked).collect(),
        Json::Object(members) => members.iter().map(|(name, value)| (hidden_text::marked(name), marked(value))).collect(),
        other => other.clone(),
    }
}

/// Removes the `_links` of records, which are for programs.
pub(crate) fn without_links(mut data: Json) -> Json {
    match &mut data {
        Json::Object(members) => {
            members.shift_remove("_links");
            members.values_mut().for_each(|value| *value = without_links(value.take()));
        }
        Json::Array(list) => list.iter_mut().for_each(|value| *value = without_links(value.take())),
        _ => (),
    }
    data
}

/// The records of an answer: those of a list, or the only one.
pub fn entries(data: &Json) -> impl Iterator<Item = &Json> {
    let one = (!data.is_array() && !data.is_null()).then_some(data);
    data.as_array().into_iter().flatten().chain(one)
}

fn name(entry: &Json) -> String {
    let of = |member: &str| entry.get(member).and_then(Json::as_str).filter(|text| !text.is_empty());
    of("name").or_else(|| of("id")).map_or_else(|| cell(entry), str::to_owned)
}

/// The width of the terminal in characters; `None` for a file.
fn width() -> Option<usize> {
    let columns = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let is_terminal = std::io::stdout().is_terminal();
    let measured = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    columns.or_else(|| is_terminal.then(measured).flatten()).filter(|width| *width > 0)
}

/// A list as a table. The columns are id, name, texts, lists and references in `order`, other ones, then numbers and booleans, as
/// far as they fit. Columns without any value are left out.
pub fn table(data: &Json, width: Option<usize>, order: &[String]) -> String {
    let entries: Vec<&Json> = entries(data).collect();
    let mut columns: Vec<String> = Vec::new();
    for (member, value) in entries.iter().filter_map(|entry| entry.as_object()).flatten() {
        let is_left_out = LEFT_OUT.contains(&member.as_str()) || (data.is_array() && member == SECRET);
        let shown = !is_left_out && !cell(value).is_empty() && !columns.contains(member);
        columns.extend(shown.then(|| member.clone()));
    }
    // A column of names replaces its column of ids.
    let all = columns.clone();
    let has = |name: &str| all.iter().any(|column| column == name);
    columns.retain(|column| !column.strip_suffix("Id").is_some_and(has) && !has(&format!("{column}{NAMES}")));
    let is_text = |column: &String| {
        entries.iter().filter_map(|entry| entry.get(column)).any(|value| value.is_string() || value.is_array() || value.is_object())
    };
    columns.sort_by_cached_key(|column| match column.as_str() {
        "id" => (0, 0),
        "name" => (1, 0),
        _ if is_text(column) => (2, order.iter().position(|member| title(member) == title(column)).unwrap_or(order.len())),
        _ => (3, 0),
    });
    if columns.is_empty() {
        return entries.iter().map(|entry| shown(&cell(entry))).collect::<Vec<_>>().join("\n");
    }
    let of = |entry: &Json, column: &str| shortened(&shown(&entry.get(column).map(cell).unwrap_or_default()));
    let mut left = width.unwrap_or(usize::MAX);
    let mut widths = Vec::new();
    for column in &columns {
        let cells = entries.iter().map(|entry| of(entry, column)).chain([heading(column)]);
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        let is_first = widths.is_empty();
        if !is_first && widest + GAP > left {
            break;
        }
        left = left.saturating_sub(widest + if is_first { 0 } else { GAP });
        widths.push(widest);
    }
    let line = |cells: &mut dyn Iterator<Item = String>| {
        let padded = cells.zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect::<Vec<_>>();
        padded.join("  ").trim_end().to_owned()
    };
    let head = line(&mut columns.iter().map(|column| heading(column)));
    let rows = entries.iter().map(|entry| line(&mut columns.iter().map(|column| of(entry, column))));
    std::iter::once(head).chain(rows).collect::<Vec<_>>().join("\n")
}

/// The member that a column shows, without the suffix of its ids or names.
fn title(column: &str) -> &str {
    column.strip_suffix(NAMES).or_else(|| column.strip_suffix("Id")).unwrap_or(column)
}

fn heading(column: &str) -> String {
    super::grammar::kebab(title(column)).to_uppercase()
}

/// A value as a cell; empty for anything but a scalar, a list or a reference.
fn cell(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Array(list) => list.iter().map(cell).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(","),
        Json::Object(members) => members.get("name").and_then(Json::as_str).unwrap_or_default().to_owned(),
        other => other.to_string(),
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= WIDEST {
        return text.to_owned();
    }
    text.chars().take(WIDEST - 1).chain(['…']).collect()
}

/// The lines about a preview.
pub fn preview(data: &Json) -> Vec<String> {
    let mut lines = access(data);
    if lines.is_empty() {
        lines.push("nobody gains or loses access".into());
    }
    lines.push("nothing was changed".into());
    lines
}

/// Who gains and who loses access, in lines.
pub fn access(data: &Json) -> Vec<String> {
    let relations = [
        ("dial", "may dial"),
        ("bind", "may bind"),
        ("identityRouters", "may use the edge routers"),
        ("serviceRouters", "may be reached over the edge routers"),
    ];
    let mut lines = Vec::new();
    for (member, verb) in relations {
        for (turn, sign) in [("gained", "gains"), ("lost", "loses")] {
            let pairs = data.pointer(&format!("/{member}/{turn}/pairs")).and_then(Json::as_u64).unwrap_or(0);
            if pairs > 0 {
                let of = |side: &str| named(data.pointer(&format!("/{member}/{turn}/{side}")).unwrap_or(&Json::Null));
                lines.push(format!("{sign}: {} {verb} {} ({pairs} in all)", of("who"), of("what")));
            }
        }
    }
    lines
}

fn named(counted: &Json) -> String {
    let count = counted.get("count").and_then(Json::as_u64).unwrap_or(0);
    let first: Vec<String> =
        counted.get("first").map(|first| entries(first).map(|entry| shown(&name(entry))).collect()).unwrap_or_default();
    let more = count.saturating_sub(first.len() as u64);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", first.join(", "))
}
