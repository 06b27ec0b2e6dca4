//! Imports point down: a room uses only the rooms below it, and there are no circles.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The floors, lowest first. Rooms on one floor may use each other if there is no circle.
const FLOORS: [&[&str]; 13] = [
    &["clock", "error", "frame", "pki", "priority", "query"],
    &["config", "logging", "schema"],
    &["entity"],
    &["online"],
    &["store"],
    &["access", "change"],
    &["authentication", "enrollment", "explain", "maintenance", "posture"],
    &["listener"],
    &["network"],
    &["http"],
    &["jobs", "admin_socket"],
    &["controller"],
    &["cli"],
];

/// Crates that only these rooms may name (the table "knows / does not know" of the design).
const KNOWN_TO: [(&str, &[&str]); 6] = [
    ("redb", &["store"]),
    ("actix_web", &["http", "controller"]),
    ("actix_http", &["http", "logging"]),
    ("actix_server", &["listener"]),
    ("jsonschema", &["schema"]),
    ("rcgen", &["pki"]),
];

fn floor(room: &str) -> usize {
    FLOORS.iter().position(|rooms| rooms.contains(&room)).unwrap_or_else(|| panic!("the room `{room}` is on no floor: add it here"))
}

/// Every source file of the library with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut open, mut found) = (vec![root.clone()], Vec::new());
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                open.push(entry);
            } else if entry.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&entry).unwrap();
                found.push((entry.strip_prefix(&root).unwrap().to_owned(), text));
            }
        }
    }
    found
}

/// The room of a file: its top folder, or its own name at the top. The crate's two roots belong to none.
fn room(file: &Path) -> Option<String> {
    let first = file.iter().next()?.to_str()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (!["lib", "main"].contains(&name)).then(|| name.to_owned())
}

/// Code without comments and without the unit tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// The names that follow `crate::`, in paths and in `use crate::{a, b::{c, d}}`.
fn rooms_named(code: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => named.extend(heads(group)),
            None => named.extend(word(rest)),
        }
    }
    named
}

/// The first name of each part of a group, up to its closing brace.
fn heads(group: &str) -> Vec<String> {
    let (mut depth, mut start, mut found) = (0_usize, true, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = true,
            c if start && !c.is_whitespace() => {
                found.extend(word(&group[at..]));
                start = false;
            }
            _ => {}
        }
    }
    found
}

fn word(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text[..end].starts_with(|c: char| c.is_ascii_lowercase()).then(|| text[..end].to_owned())
}

/// Which room uses which, with a file that does.
fn arrows() -> BTreeMap<(String, String), PathBuf> {
    let mut arrows = BTreeMap::new();
    for (file, text) in sources() {
        let Some(from) = room(&file) else { continue };
        for to in rooms_named(&code(&text)).into_iter().filter(|to| *to != from) {
            arrows.entry((from.clone(), to)).or_insert_with(|| file.clone());
        }
    }
    arrows
}

#[test]
fn a_room_uses_only_what_is_below_it() {
    let up: Vec<String> = arrows()
        .into_iter()
        .filter(|((from, to), _)| floor(to) > floor(from))
        .map(|((from, to), file)| format!("{from} uses {to}, which is above it, in src/{}", file.display()))
        .collect();
    assert!(up.is_empty(), "{up:#?}");
}

#[test]
fn no_rooms_need_one_another() {
    let mut below: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in arrows().into_keys() {
        below.entry(from).or_default().insert(to.clone());
        below.entry(to).or_default();
    }
    // Removes rooms that need nothing else, until only circles are left.
    while let Some(done) = below.iter().find(|(_, uses)| uses.is_empty()).map(|(room, _)| room.clone()) {
        below.remove(&done);
        below.values_mut().for_each(|uses| uses.retain(|room| *room != done));
    }
    assert!(below.is_empty(), "a circle: {below:#?}");
}

#[test]
fn what_a_room_does_not_know_it_does_not_name() {
    for (file, text) in sources() {
        let (Some(room), code) = (room(&file), code(&text)) else { continue };
        for (name, knows) in KNOWN_TO {
            let named = code.contains(&format!("{name}::")) || code.contains(&format!("use {name}"));
            assert!(!named || knows.contains(&room.as_str()), "src/{} names {name}", file.display());
        }
    }
}

#[test]
fn the_lowest_floors_stand_on_nothing_of_ours_but_errors() {
    for ((from, to), file) in arrows() {
        let alone = FLOORS[0].contains(&from.as_str());
        assert!(!alone, "{from} uses {to} in src/{}", file.display());
    }
}

#[test]
fn every_room_says_what_it_is() {
    for (file, text) in sources() {
        assert!(text.starts_with("//! "), "src/{} does not say what it is", file.display());
    }
}

#[test]
fn the_reader_of_imports_finds_them_all() {
    let code = code(
        "use crate::{\n    access::{self, Access},\n    entity::{Id, service::{A, B}}, error::Result,\n};\n// crate::cli\nuse crate::store::Tx;\nfn f() -> crate::pki::Key { $crate::no(); crate::Thing }\n#[cfg(test)]\nmod tests { use crate::http; }",
    );
    assert_eq!(rooms_named(&code).into_iter().collect::<Vec<_>>(), ["access", "entity", "error", "pki", "store"]);
}

/// Rooms that `from` reaches over at least one other room.
fn reached_otherwise(from: &str, uses: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let mut open: Vec<&String> = uses.get(from).into_iter().flatten().flat_map(|next| uses.get(next).into_iter().flatten()).collect();
    let mut found = BTreeSet::new();
    while let Some(room) = open.pop() {
        if found.insert(room.clone()) {
            open.extend(uses.get(room).into_iter().flatten());
        }
    }
    found
}

/// The rooms by floor and their uses, as Mermaid. Arrows that follow from others are left out.
fn picture() -> String {
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in arrows().into_keys() {
        uses.entry(from).or_default().insert(to);
    }
    let mut lines = vec!["```mermaid".to_owned(), "flowchart TB".to_owned()];
    for (number, rooms) in FLOORS.iter().enumerate().rev() {
        lines.push(format!("  subgraph floor{number} [\" \"]"));
        lines.extend(rooms.iter().map(|room| format!("    {room}")));
        lines.push("  end".to_owned());
    }
    for (from, all) in &uses {
        let otherwise = reached_otherwise(from, &uses);
        lines.extend(all.difference(&otherwise).map(|to| format!("  {from} --> {to}")));
    }
    lines.push("```".to_owned());
    lines.join("\n")
}

#[test]
fn the_picture_shows_the_sources() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md");
    let text = fs::read_to_string(&page).unwrap();
    let start = text.find("```mermaid").expect("docs/architecture.md has a picture");
    let end = start + text[start + 3..].find("```").unwrap() + 6;
    let drawn = picture();
    if std::env::var_os("OVERKEEP_WRITE_DOCS").is_some() {
        fs::write(&page, format!("{}{drawn}{}", &text[..start], &text[end..])).unwrap();
    } else {
        assert_eq!(&text[start..end], drawn, "OVERKEEP_WRITE_DOCS=1 cargo test --locked --test promises architecture");
    }
}
