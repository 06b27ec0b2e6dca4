//! Output formats of answers: table, JSON, YAML, names.

use std::{env, io::IsTerminal};

use model::{
    entity::kebab,
    hidden_text::{self, shown},
};
use serde::Serialize;
use serde_json::Value as Json;

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

/// An answer cannot be serialized, which is a defect.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("{0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
}

/// An answer in an output format. A table puts the members in `order` first.
///
/// # Errors
/// See [`OutputError`].
pub fn text(data: &Json, format: &str, order: &[String]) -> Result<String, OutputError> {
    match format {
        "json" => json(data),
        "yaml" => yaml(data),
        "name" => Ok(entries(data)
            .map(|entry| shown(&name(entry)))
            .collect::<Vec<_>>()
            .join("\n")),
        _ => Ok(table(data, width(), order)),
    }
}

/// A value as JSON, in lines. Characters that a terminal obeys or that nobody sees are escaped.
///
/// # Errors
/// See [`OutputError`].
pub(crate) fn json(value: &impl Serialize) -> Result<String, OutputError> {
    Ok(hidden_text::json(&serde_json::to_string_pretty(value)?))
}

/// A value as YAML, with the same escapes.
fn yaml(data: &Json) -> Result<String, OutputError> {
    let text = serde_saphyr::to_string(&marked(data))?;
    Ok(hidden_text::unmarked(text.trim_end()))
}

fn marked(data: &Json) -> Json {
    match data {
        Json::String(text) => hidden_text::marked(text).into(),
        Json::Array(list) => list.iter().map(marked).collect(),
        Json::Object(members) => members
            .iter()
            .map(|(name, value)| (hidden_text::marked(name), marked(value)))
            .collect(),
        other => other.clone(),
    }
}

/// Removes the `_links` of records, which are for programs.
pub(crate) fn without_links(mut data: Json) -> Json {
    match &mut data {
        Json::Object(members) => {
            members.shift_remove("_links");
            for value in members.values_mut() {
                *value = without_links(value.take());
            }
        }
        Json::Array(list) => {
            for value in list {
                *value = without_links(value.take());
            }
        }
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
    let of = |member: &str| {
        entry
            .get(member)
            .and_then(Json::as_str)
            .filter(|text| !text.is_empty())
    };
    of("name")
        .or_else(|| of("id"))
        .map_or_else(|| cell(entry), str::to_owned)
}

/// The width of the terminal in characters; `None` for a file.
pub(crate) fn width() -> Option<usize> {
    let columns = env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    let is_terminal = std::io::stdout().is_terminal();
    let measured = || {
        rustix::termios::tcgetwinsize(std::io::stdout())
            .ok()
            .map(|size| usize::from(size.ws_col))
    };
    columns
        .or_else(|| is_terminal.then(measured).flatten())
        .filter(|width| *width > 0)
}

/// A list as a table. The columns are id, name, texts, lists and references in `order`, other ones,
/// then numbers and booleans, as far as they fit. Of the others, references by name come first and
/// bare ids last. Columns without any value are left out.
pub fn table(data: &Json, width: Option<usize>, order: &[String]) -> String {
    let entries: Vec<&Json> = entries(data).collect();
    let mut columns: Vec<String> = Vec::new();
    for (member, value) in entries
        .iter()
        .filter_map(|entry| entry.as_object())
        .flatten()
    {
        let is_left_out =
            LEFT_OUT.contains(&member.as_str()) || (data.is_array() && member == SECRET);
        let shown = !is_left_out && !cell(value).is_empty() && !columns.contains(member);
        columns.extend(shown.then(|| member.clone()));
    }
    // A column of names replaces its column of ids.
    let all = columns.clone();
    let has = |name: &str| all.iter().any(|column| column == name);
    columns.retain(|column| {
        !column.strip_suffix("Id").is_some_and(has) && !has(&format!("{column}{NAMES}"))
    });
    let values = |column: &str| {
        entries
            .iter()
            .filter_map(move |entry| entry.get(column))
            .collect::<Vec<&Json>>()
    };
    columns.sort_by_cached_key(|column| {
        let values = values(column);
        let at = order
            .iter()
            .position(|member| title(member) == title(column))
            .unwrap_or(order.len());
        match column.as_str() {
            "id" => (0, 0, 0),
            "name" => (1, 0, 0),
            _ if values.iter().any(|value| value.is_object()) => (2, at, 0),
            name if name.ends_with("Id") => (2, at, 2),
            _ if values
                .iter()
                .any(|value| value.is_string() || value.is_array()) =>
            {
                (2, at, 1)
            }
            _ => (3, 0, 0),
        }
    });
    if columns.is_empty() {
        return entries
            .iter()
            .map(|entry| shown(&cell(entry)))
            .collect::<Vec<_>>()
            .join("\n");
    }
    let of = |entry: &Json, column: &str| {
        shortened(&shown(&entry.get(column).map(cell).unwrap_or_default()))
    };
    let headings: Vec<String> = columns.iter().map(|column| heading(column)).collect();
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| columns.iter().map(|column| of(entry, column)).collect())
        .collect();
    laid_out(&headings, &rows, width)
}

/// A list as a table of these columns, whole. A column is a member by the name in requests or by
/// its heading; `a.b` is a member of an object.
pub(crate) fn chosen_columns(data: &Json, columns: &[String]) -> String {
    let headings: Vec<String> = columns
        .iter()
        .map(|column| {
            column
                .split('.')
                .map(kebab)
                .collect::<Vec<_>>()
                .join(".")
                .to_uppercase()
        })
        .collect();
    let of = |entry: &Json, column: &str| {
        shown(
            &column
                .split('.')
                .try_fold(entry, part)
                .map(cell)
                .unwrap_or_default(),
        )
    };
    let rows: Vec<Vec<String>> = entries(data)
        .map(|entry| columns.iter().map(|column| of(entry, column)).collect())
        .collect();
    laid_out(&headings, &rows, None)
}

/// The member that a part of a column's name means: its names, itself, or its id.
fn part<'j>(json: &'j Json, wanted: &str) -> Option<&'j Json> {
    let (members, wanted) = (json.as_object()?, kebab(wanted));
    let found = |fits: &dyn Fn(&str) -> bool| {
        members
            .iter()
            .find(|(name, _)| fits(name))
            .map(|(_, value)| value)
    };
    let is_titled = |name: &str| kebab(title(name)) == wanted;
    let of_names = found(&|name| name.ends_with(NAMES) && is_titled(name));
    of_names
        .or_else(|| found(&|name| kebab(name) == wanted))
        .or_else(|| found(&is_titled))
}

/// Whether a column can be one of a record with these members.
pub(crate) fn is_column(wanted: &str, members: &[String]) -> bool {
    let wanted = kebab(wanted.split('.').next().unwrap_or_default());
    members
        .iter()
        .any(|name| kebab(name) == wanted || kebab(title(name)) == wanted)
}

/// Rows below headings, in columns; as many columns as fit.
fn laid_out(headings: &[String], rows: &[Vec<String>], width: Option<usize>) -> String {
    let mut left = width.unwrap_or(usize::MAX);
    let mut widths = Vec::new();
    for (at, heading) in headings.iter().enumerate() {
        let cells = rows.iter().filter_map(|row| row.get(at)).chain([heading]);
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        let is_first = widths.is_empty();
        if !is_first && widest + GAP > left {
            break;
        }
        left = left.saturating_sub(widest + if is_first { 0 } else { GAP });
        widths.push(widest);
    }
    let line = |cells: &[String]| {
        let padded = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect::<Vec<_>>();
        padded.join("  ").trim_end().to_owned()
    };
    std::iter::once(line(headings))
        .chain(rows.iter().map(|row| line(row)))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The member that a column shows, without the suffix of its ids or names.
fn title(column: &str) -> &str {
    column
        .strip_suffix(NAMES)
        .or_else(|| column.strip_suffix("Id"))
        .unwrap_or(column)
}

fn heading(column: &str) -> String {
    kebab(title(column)).to_uppercase()
}

/// A value as a cell; empty for anything but a scalar, a list or a reference, which may be that of
/// an identity, as the end of a circuit has.
fn cell(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Array(list) => list
            .iter()
            .map(cell)
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join(","),
        Json::Object(members) => {
            let named = members
                .get("name")
                .or_else(|| members.get("identity")?.get("name"));
            named.and_then(Json::as_str).unwrap_or_default().to_owned()
        }
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

/// Who gains and who loses access, in lines: one for each service and edge router, as far as they
/// are known one by one.
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
            let pairs = data
                .pointer(&format!("/{member}/{turn}/pairs"))
                .and_then(Json::as_u64)
                .unwrap_or(0);
            let mut told = 0;
            for share in data
                .get("shares")
                .into_iter()
                .flat_map(entries)
                .filter(|share| share.get("relation").is_some_and(|of| of == member))
            {
                let count = share
                    .pointer(&format!("/{turn}/count"))
                    .and_then(Json::as_u64)
                    .unwrap_or(0);
                if count > 0 {
                    let (who, what) = (
                        named(share.get(turn).unwrap_or(&Json::Null)),
                        share.get("what").map(name).unwrap_or_default(),
                    );
                    lines.push(format!(
                        "{sign}: {who} {verb} {} ({count} in all)",
                        shown(&what)
                    ));
                    told += count;
                }
            }
            if told == 0 && pairs > 0 {
                let of = |side: &str| {
                    named(
                        data.pointer(&format!("/{member}/{turn}/{side}"))
                            .unwrap_or(&Json::Null),
                    )
                };
                lines.push(format!(
                    "{sign}: {} {verb} {} ({})",
                    of("who"),
                    of("what"),
                    counted(pairs)
                ));
            } else if pairs > told {
                lines.push(format!(
                    "{sign}: and {} that are not listed ({verb})",
                    counted(pairs - told)
                ));
            }
        }
    }
    lines
}

fn counted(pairs: u64) -> String {
    if pairs == 1 {
        "1 pair".into()
    } else {
        format!("{pairs} pairs")
    }
}

fn named(counted: &Json) -> String {
    let count = counted.get("count").and_then(Json::as_u64).unwrap_or(0);
    let first: Vec<String> = counted
        .get("first")
        .map(|first| entries(first).map(|entry| shown(&name(entry))).collect())
        .unwrap_or_default();
    let more = count.saturating_sub(first.len() as u64);
    let rest = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("{}{rest}", first.join(", "))
}
