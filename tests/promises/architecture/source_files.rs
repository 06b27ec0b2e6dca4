//! Source files of the workspace, and which modules their code names.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::{ROOT, Sources};

/// The folders of sources: of the root package, and of each crate.
pub fn source_folders() -> Vec<String> {
    let mut folders: Vec<String> = crates()
        .iter()
        .map(|name| format!("crates/{name}/src"))
        .collect();
    folders.insert(0, ROOT.to_owned());
    folders
}

/// The names of the crates of the workspace, which are those of their folders.
pub fn crates() -> Vec<String> {
    let folders = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates")).unwrap();
    let mut names: Vec<String> = folders
        .map(|folder| folder.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Every source file of the workspace with its text.
pub fn sources() -> Vec<(PathBuf, String)> {
    let folders = source_folders();
    folders.iter().flat_map(|folder| below(folder)).collect()
}

/// Every Rust file below a folder of the project with its text.
pub fn below(folder: &str) -> Vec<(PathBuf, String)> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut open, mut found) = (vec![project.join(folder)], Vec::new());
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if entry.is_dir() {
                open.push(entry);
            } else if entry.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&entry).unwrap();
                found.push((entry.strip_prefix(project).unwrap().to_owned(), text));
            }
        }
    }
    found
}

/// The module of a file below a folder of sources: its top folder, or its own name at the top. The
/// roots of a package and the façade for tests belong to none.
pub fn module(folder: &str, file: &Path) -> Option<String> {
    let first = file.strip_prefix(folder).ok()?.iter().next()?.to_str()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (!["lib", "main", "testing"].contains(&name)).then(|| name.to_owned())
}

/// The files below a folder, with their paths from there.
pub fn inside(folder: &str, sources: &Sources) -> Vec<(PathBuf, String)> {
    let inside = sources.iter().filter_map(|(file, text)| {
        let file = file.strip_prefix(folder).ok()?;
        Some((file.to_owned(), text.clone()))
    });
    inside.collect()
}

/// Code without comments and without the unit tests at its end.
pub fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    text.lines()
        .map(|line| line.split("//").next().unwrap())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The names that follow `crate::`, in paths and in `use crate::{a, b::{c, d}}`.
pub fn modules_named(code: &str) -> BTreeSet<String> {
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

pub fn word(text: &str) -> Option<String> {
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    text[..end]
        .starts_with(|c: char| c.is_ascii_lowercase())
        .then(|| text[..end].to_owned())
}

#[test]
fn imports_of_modules_are_read() {
    let code = code(
        "use crate::{\n    access::{self, Access},\n    entity::{Id, service::{A, B}}, error::Result,\n};\n// crate::cli\nuse crate::store::Tx;\nfn f() -> crate::pki::Key { $crate::no(); crate::Thing }\n#[cfg(test)]\nmod tests { use crate::http; }",
    );
    assert_eq!(
        modules_named(&code).into_iter().collect::<Vec<_>>(),
        ["access", "entity", "error", "pki", "store"]
    );
}
