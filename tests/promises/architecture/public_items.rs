//! Public items of libraries that nothing names: the compiler reports private ones only.

use std::{collections::BTreeMap, path::Path};

use super::{
    Sources,
    source_files::{below, code, crates},
};

/// Where only tests may name public items, each with its reason.
const FOR_TESTS: [(&str, &str); 2] = [
    (
        "crates/wire/src/",
        "It describes both sides of a conversation, and tests play the other side.",
    ),
    (
        "crates/store/src/opening.rs",
        "`open_on` opens a store on the simulated disks of tests.",
    ),
];

/// Files of this check, which name faulty items.
const OWN: &str = "tests/promises/architecture";

/// Public items of libraries that no other place names, or that only tests name.
pub fn unused(sources: &Sources) -> Vec<String> {
    let mut tests = ["tests", "benches", "examples"].map(below).concat();
    for folder in crates().iter().map(|name| format!("crates/{name}/tests")) {
        if Path::new(env!("CARGO_MANIFEST_DIR")).join(&folder).is_dir() {
            tests.extend(below(&folder));
        }
    }
    tests.retain(|(file, _)| !file.to_str().unwrap().starts_with(OWN));
    let (named, named_by_tests) = (counts(sources), counts(&tests));
    let mut unused = Vec::new();
    for (file, text) in sources {
        let file = file.to_str().unwrap();
        if !file.starts_with("crates/") || file.ends_with("/tests.rs") {
            continue;
        }
        let code = code(text);
        for name in public_items(&words(&code)) {
            let is_for_tests = FOR_TESTS.iter().any(|(place, _)| file.starts_with(place));
            if named.get(name).is_some_and(|count| *count > 1)
                || is_for_tests && named_by_tests.contains_key(name)
            {
                continue;
            }
            let who = if named_by_tests.contains_key(name) {
                "only tests name"
            } else {
                "nothing names"
            };
            unused.push(format!("{who} {name} of {file}"));
        }
    }
    unused
}

/// How often each word occurs outside re-exports and unit tests.
fn counts(files: &Sources) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (file, text) in files {
        if file.ends_with("tests.rs") && file.starts_with("crates") {
            continue;
        }
        for word in words(&without_reexports(&code(text))) {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
    }
    counts
}

fn without_reexports(code: &str) -> String {
    let mut parts = code.split("pub use ");
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        rest.push_str(part.split_once(';').map_or("", |(_, after)| after));
    }
    rest
}

fn words(code: &str) -> Vec<&str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .collect()
}

/// The names that follow `pub fn`, `pub struct` and the like.
fn public_items<'c>(words: &[&'c str]) -> Vec<&'c str> {
    let mut found = Vec::new();
    for (at, _) in words.iter().enumerate().filter(|(_, word)| **word == "pub") {
        let mut rest = words[at + 1..]
            .iter()
            .copied()
            .skip_while(|word| ["async", "unsafe"].contains(word))
            .peekable();
        match rest.next() {
            Some("const") => {
                rest.next_if_eq(&"fn");
                found.extend(rest.next());
            }
            Some("fn" | "struct" | "enum" | "trait" | "static" | "type") => {
                found.extend(rest.next());
            }
            _ => {}
        }
    }
    found
}
