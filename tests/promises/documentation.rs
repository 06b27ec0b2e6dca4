//! The documentation: the list of keys is generated from `controller.toml`, links are valid, the
//! README is short.

use std::{env, fs, path::Path};

use crate::architecture::below;

const WRITE: &str = "OVERKEEP_WRITE_DOCS";
const MOST_BYTES_OF_README: usize = 8 << 10;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A key of `controller.toml`.
struct Key {
    name: String,
    default: String,
    bounds: String,
    text: String,
}

/// The keys with the comment in front of each, by section.
fn keys(toml: &str) -> Vec<Key> {
    let (mut section, mut comment, mut keys) = (String::new(), Vec::new(), Vec::new());
    for line in toml.lines() {
        let body = line.strip_prefix("# ").unwrap_or(line);
        let key = body.split_once(" = ").filter(|(name, _)| {
            name.chars()
                .all(|c| c.is_ascii_lowercase() || "-.".contains(c))
        });
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            (section, comment) = (format!("{name}."), Vec::new());
        } else if let Some((name, default)) = key {
            let name = if name.contains('.') {
                name.to_owned()
            } else {
                format!("{section}{name}")
            };
            let default = if line.starts_with('#') {
                "none".to_owned()
            } else {
                format!("`{default}`")
            };
            let (bounds, text): (Vec<&str>, Vec<&str>) = comment
                .drain(..)
                .partition(|line: &&str| line.starts_with("Bounds: "));
            let bounds = bounds
                .concat()
                .replace("Bounds: ", "")
                .trim_end_matches('.')
                .to_owned();
            keys.push(Key {
                name,
                default,
                bounds,
                text: text.join(" "),
            });
        } else if line.starts_with('#') {
            comment.push(body.trim_start_matches('#').trim());
        } else {
            comment.clear();
        }
    }
    keys
}

/// The content of `docs/configuration.md`.
fn configuration(toml: &str) -> String {
    let mut page = String::from(
        "# Configuration\n\nMade from `controller.toml` by the tests; edit that file.\n\nNothing has to be configured. Keys can be set by a flag \
         (`overkeep run --help`), by a variable (`OVERKEEP_` and the key in capitals, with `_` for each dot and dash: \
         `OVERKEEP_SESSIONS_TIMEOUT=1h`), or in a file that `--config` names. A flag wins over a variable, a variable over the file. Durations \
         are a whole number and a unit: `500ms`, `90s`, `30m`, `12h`, `7d`.\n\n| key | default | bounds | meaning |\n|---|---|---|---|\n",
    );
    for Key {
        name,
        default,
        bounds,
        text,
    } in keys(toml)
    {
        page += &format!(
            "| `{name}` | {default} | {bounds} | {} |\n",
            text.replace('|', "\\|")
        );
    }
    page
}

#[test]
fn configuration_page_matches_controller_toml() {
    let path = root().join("docs/configuration.md");
    let made = configuration(&fs::read_to_string(root().join("controller.toml")).unwrap());
    if env::var_os(WRITE).is_some_and(|value| value == "1") {
        fs::write(&path, &made).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == made,
        "docs/configuration.md is out of date: run `{WRITE}=1 cargo test --locked --test promises documentation` and commit it"
    );
}

/// The documentation pages with their text.
pub fn pages() -> Vec<(std::path::PathBuf, String)> {
    let docs = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let pages = docs.chain(["README.md", "CHANGELOG.md"].map(|name| root().join(name)));
    pages
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .map(|path| (path.clone(), fs::read_to_string(&path).unwrap()))
        .collect()
}

/// The link anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .collect::<String>();
    kept.replace(' ', "-")
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut links = 0;
    for (path, text) in pages() {
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap();
            if target.starts_with("http") {
                continue;
            }
            links += 1;
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() {
                path.clone()
            } else {
                path.parent().unwrap().join(file)
            };
            assert!(
                file.exists(),
                "{} links to {target}, which does not exist",
                path.display()
            );
            if !heading.is_empty() {
                let there = fs::read_to_string(&file).unwrap();
                let found = there
                    .lines()
                    .filter_map(|line| line.strip_prefix('#'))
                    .any(|line| anchor(line.trim_start_matches('#')) == heading);
                assert!(
                    found,
                    "{} links to {target}: no such heading",
                    path.display()
                );
            }
        }
    }
    assert!(links > 5, "the pages link to each other");
}

/// The first lines of tables without a line in front that says when and at which commit they were
/// measured.
fn undated_tables(page: &str) -> Vec<&str> {
    let is_row = |line: &str| line.starts_with('|');
    let is_dated = |text: &str| {
        let rest = text
            .strip_prefix("Measured on ")
            .or_else(|| text.strip_prefix("Measured by "));
        let date = rest.and_then(|rest| rest.split_once(", commit "));
        let is_date = |date: &str| matches!(date.split(' ').collect::<Vec<_>>()[..], [_, _, year] if year.parse::<u16>().is_ok());
        let is_commit = |rest: &str| rest.bytes().take_while(u8::is_ascii_hexdigit).count() == 8;
        date.is_some_and(|(date, rest)| is_date(date) && is_commit(rest))
    };
    let blocks: Vec<&str> = page.split("\n\n").map(str::trim_start).collect();
    let pairs = blocks
        .windows(2)
        .filter(|pair| is_row(pair[1]) && !is_dated(pair[0]));
    pairs.filter_map(|pair| pair[1].lines().next()).collect()
}

#[test]
fn tables_of_figures_are_dated() {
    let page = fs::read_to_string(root().join("docs/performance.md")).unwrap();
    assert_eq!(undated_tables(&page), [""; 0]);
    let dated = "Measured on 3 May 2026, commit 0123abcd, alone.\n\n| a |\n|---|";
    assert!(undated_tables(dated).is_empty());
    for [old, new] in [
        ["Measured", "Counted"],
        ["2026", "spring"],
        ["0123abcd", "0123"],
        ["alone.", "alone.\n\nMore."],
    ] {
        assert_eq!(undated_tables(&dated.replace(old, new)), ["| a |"], "{old}");
    }
}

#[test]
fn readme_is_short() {
    let bytes = fs::metadata(root().join("README.md")).unwrap().len();
    assert!(
        bytes <= MOST_BYTES_OF_README as u64,
        "README.md has {bytes} bytes, {MOST_BYTES_OF_README} are allowed"
    );
}

#[test]
fn newcomers_find_words_and_program() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let (concepts, install, readme) = (
        read("docs/concepts.md"),
        read("docs/install.md"),
        read("README.md"),
    );
    assert_eq!(
        concepts.matches("```mermaid").count(),
        1,
        "concepts.md has one picture"
    );
    for word in [
        "identity",
        "role",
        "service",
        "config",
        "service policy",
        "edge router",
        "terminator",
        "circuit",
        "posture check",
        "auth policy",
    ] {
        assert!(
            concepts.contains(&format!("\n| {word} |")),
            "concepts.md does not explain {word}"
        );
    }
    for way in [
        "git clone",
        "rustup",
        "examples/packaging/build",
        "examples/packaging/Containerfile",
    ] {
        assert!(
            install.contains(way),
            "install.md does not say how to use {way}"
        );
    }
    for page in ["docs/concepts.md", "docs/install.md"] {
        assert!(
            readme.contains(&format!("({page})")),
            "the README does not link to {page}"
        );
    }
}

/// The source files that comments name, by the end of their path, such as `links/route.rs`.
#[test]
fn files_that_comments_name_exist() {
    let files: Vec<_> = ["src", "crates", "tests", "benches", "examples"]
        .into_iter()
        .flat_map(below)
        .collect();
    let mut named = 0;
    for (file, text) in &files {
        for comment in text
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("//"))
        {
            for name in comment
                .split('`')
                .skip(1)
                .step_by(2)
                .filter(|name| name.ends_with(".rs") && !name.contains([' ', '*']))
            {
                named += 1;
                assert!(
                    files.iter().any(|(file, _)| file.ends_with(name)),
                    "{} names {name}, which does not exist",
                    file.display()
                );
            }
        }
    }
    assert!(named > 100, "comments name source files");
}

#[test]
fn types_that_pages_name_exist() {
    let source: String = ["src", "crates"]
        .into_iter()
        .flat_map(below)
        .map(|(_, text)| text)
        .collect();
    let mut named = 0;
    for (path, text) in pages() {
        for name in text.split('`').skip(1).step_by(2) {
            let Some((of, function)) = name.split_once("::") else {
                continue;
            };
            let is_type = |of: &str| {
                of.starts_with(|c: char| c.is_ascii_uppercase())
                    && of.chars().all(char::is_alphanumeric)
            };
            if !is_type(of) || !function.chars().all(|c| c.is_alphanumeric() || c == '_') {
                continue;
            }
            named += 1;
            let declared = ["struct", "enum", "trait", "type"]
                .iter()
                .any(|what| source.contains(&format!("{what} {of}")));
            assert!(
                declared && source.contains(function),
                "{} names {name}, which does not exist",
                path.display()
            );
        }
    }
    assert!(named > 3, "the pages name functions of types");
}

#[test]
fn source_files_that_pages_name_exist() {
    let mut named = 0;
    for (path, text) in pages() {
        for name in text
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|name| name.ends_with(".rs") && !name.contains(' '))
        {
            named += 1;
            let there = ["", "src"]
                .iter()
                .any(|folder| root().join(folder).join(name).exists());
            assert!(
                there,
                "{} names {name}, which does not exist",
                path.display()
            );
        }
    }
    assert!(named > 20, "the pages name source files");
}
