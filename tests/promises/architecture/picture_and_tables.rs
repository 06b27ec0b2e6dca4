//! The page about the architecture: its tables name every crate and module, and its picture shows
//! the sources.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::{
    FABRIC_LAYERS, LAYERS, Layers, POLICY_LAYERS, ROOT, Sources, arrows, imports,
    source_files::{crates, inside, module, sources},
};

/// Modules that `from` reaches over at least one other module.
fn reached_otherwise(from: &str, uses: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let mut open: Vec<&String> = uses
        .get(from)
        .into_iter()
        .flatten()
        .flat_map(|next| uses.get(next).into_iter().flatten())
        .collect();
    let mut found = BTreeSet::new();
    while let Some(module) = open.pop() {
        if found.insert(module.clone()) {
            open.extend(uses.get(module).into_iter().flatten());
        }
    }
    found
}

/// Which crate each module of the root package and each crate names.
fn crates_used(sources: &Sources) -> Vec<(String, BTreeSet<String>)> {
    let known = crates();
    let mut files: BTreeMap<String, Vec<(PathBuf, String)>> = BTreeMap::new();
    for (file, text) in sources {
        if let Some(module) = module(ROOT, file) {
            let path = file.strip_prefix(ROOT).unwrap().to_owned();
            files.entry(module).or_default().push((path, text.clone()));
        }
    }
    files.extend(known.iter().map(|name| {
        let folder = format!("crates/{name}/src");
        (name.clone(), inside(&folder, sources))
    }));
    let used = files.into_iter().map(|(from, files)| {
        let mut used = imports::Imports::of(&files).crates(&known);
        // A module of the same name, which a test imports with all others.
        used.remove(&from);
        (from, used)
    });
    used.collect()
}

/// The modules by layer, the crates, and what each uses, as Mermaid. Arrows that follow from others
/// are left out.
fn picture() -> String {
    let sources = sources();
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in arrows(ROOT, &sources).into_keys() {
        uses.entry(from).or_default().insert(to);
    }
    for (from, crates) in crates_used(&sources) {
        uses.entry(from).or_default().extend(crates);
    }
    let mut lines = vec!["```mermaid".to_owned(), "flowchart TB".to_owned()];
    for (number, modules) in LAYERS.iter().enumerate().rev() {
        lines.push(format!("  subgraph layer{number} [\" \"]"));
        lines.extend(modules.iter().map(|module| format!("    {module}")));
        lines.push("  end".to_owned());
    }
    lines.push("  subgraph crates [\"crates/\"]".to_owned());
    lines.extend(crates().iter().map(|name| format!("    {name}")));
    lines.push("  end".to_owned());
    for (from, all) in &uses {
        let otherwise = reached_otherwise(from, &uses);
        lines.extend(
            all.difference(&otherwise)
                .map(|to| format!("  {from} --> {to}")),
        );
    }
    lines.push("```".to_owned());
    lines.join("\n")
}

/// The rows of a table of the page about the architecture, by its head.
fn rows_below(head: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md");
    let page = fs::read_to_string(page).unwrap();
    let rest = page
        .split_once(&format!("{head}\n|---|---|\n"))
        .map(|(_, rest)| rest);
    let table = rest.and_then(|rest| rest.split("\n\n").next());
    table.expect("the page has the table").to_owned()
}

#[test]
fn the_table_names_every_crate() {
    let table = rows_below("| crate | holds |");
    let named: BTreeSet<&str> = table
        .lines()
        .map(|row| row.split('`').nth(1).unwrap())
        .collect();
    let crates = crates();
    assert_eq!(named, crates.iter().map(String::as_str).collect());
}

#[test]
fn the_tables_name_every_module() {
    let tables: [(&str, &Layers); 3] = [
        ("| layer | modules |", &LAYERS),
        ("| layer of `fabric` | modules |", &FABRIC_LAYERS),
        ("| layer of `policy` | modules |", &POLICY_LAYERS),
    ];
    for (head, layers) in tables {
        let table = rows_below(head);
        let rows: Vec<&str> = table.lines().rev().collect();
        assert_eq!(rows.len(), layers.len(), "one row for each layer");
        for (row, modules) in rows.iter().zip(layers) {
            modules.iter().for_each(|module| {
                assert!(
                    row.contains(&format!("`{module}`")),
                    "`{module}` is not in {row}"
                )
            });
        }
    }
}

#[test]
fn the_picture_shows_the_sources() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/architecture.md");
    let text = fs::read_to_string(&page).unwrap();
    let start = text
        .find("```mermaid")
        .expect("docs/architecture.md has a picture");
    let end = start + text[start + 3..].find("```").unwrap() + 6;
    let drawn = picture();
    if std::env::var_os("OVERKEEP_WRITE_DOCS").is_some() {
        fs::write(&page, format!("{}{drawn}{}", &text[..start], &text[end..])).unwrap();
    } else {
        assert_eq!(
            &text[start..end],
            drawn,
            "OVERKEEP_WRITE_DOCS=1 cargo test --locked --test promises architecture"
        );
    }
}
