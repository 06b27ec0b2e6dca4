//! Imports run downwards: a module of the root package, of `fabric` or of `policy` uses the modules
//! below it and nothing else, no two modules need one another, and no two files of a crate do.
//! Cargo holds the order of crates.
//!
//! Each claim is a function over sources, so that `each_claim_finds_its_fault` can show it sources
//! that are wrong.

mod imports;
mod picture_and_tables;
mod public_items;
mod source_files;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

pub use source_files::below;

use source_files::{code, inside, module, modules_named, source_folders, sources, word};

/// Layers of modules, lowest first. Modules in one layer may use each other if there is no cycle.
type Layers = [&'static [&'static str]];

/// The layers of the root package.
const LAYERS: [&[&str]; 4] = [
    &["logging"],
    &["jobs", "admin_socket"],
    &["controller"],
    &["cli"],
];

/// The layers of the crate `fabric`.
const FABRIC_LAYERS: [&[&str]; 3] = [
    &["peer_lines"],
    &["network"],
    &["built_in_router", "control_channel"],
];

/// The layers of the crate `policy`.
const POLICY_LAYERS: [&[&str]; 3] = [
    &["priority"],
    &["access", "change"],
    &[
        "authentication",
        "enrollment",
        "expiring",
        "explain",
        "hosting",
        "posture",
    ],
];

/// The folder of sources of the root package.
const ROOT: &str = "src";
/// Folders of sources whose modules are in layers.
const LAYERED: [(&str, &Layers); 3] = [
    (ROOT, &LAYERS),
    ("crates/fabric/src", &FABRIC_LAYERS),
    ("crates/policy/src", &POLICY_LAYERS),
];

/// Libraries that only these files may name (the table "knows / does not know" of the design).
const KNOWN_TO: [(&str, &[&str]); 6] = [
    // Transactions, lists, history and checks know rows of bytes.
    (
        "redb",
        &[
            "crates/store/src/file/",
            "crates/store/src/store_core.rs",
            "crates/store/src/opening.rs",
            "crates/store/src/tx/tables.rs",
            "crates/store/src/tx/writer.rs",
        ],
    ),
    ("actix_web", &["crates/rest/src/", "src/controller/"]),
    ("actix_http", &["crates/rest/src/"]),
    ("actix_server", &["crates/listener/src/"]),
    (
        "jsonschema",
        &["crates/model/src/schema.rs", "crates/model/src/schema/"],
    ),
    ("rcgen", &["crates/pki/src/"]),
];

/// Files with their paths below the project, and their text.
type Sources = [(PathBuf, String)];

fn layer(module: &str, layers: &Layers) -> usize {
    layers
        .iter()
        .position(|modules| modules.contains(&module))
        .unwrap_or_else(|| panic!("the module `{module}` is in no layer: add it here"))
}

/// Which module of a package uses which, with a file that does.
fn arrows(folder: &str, sources: &Sources) -> BTreeMap<(String, String), PathBuf> {
    let mut arrows = BTreeMap::new();
    for (file, text) in sources {
        let Some(from) = module(folder, file) else {
            continue;
        };
        for to in modules_named(&code(text))
            .into_iter()
            .filter(|to| *to != from)
        {
            arrows
                .entry((from.clone(), to))
                .or_insert_with(|| file.clone());
        }
    }
    arrows
}

/// Modules that use a module above them.
fn arrows_that_run_up(sources: &Sources) -> Vec<String> {
    let mut up = Vec::new();
    for (folder, layers) in LAYERED {
        for ((from, to), file) in arrows(folder, sources) {
            if layer(&to, layers) > layer(&from, layers) {
                let file = file.display();
                up.push(format!("{from} uses {to}, which is above it, in {file}"));
            }
        }
    }
    up
}

/// Modules of a lowest layer that use another module.
fn lowest_modules_that_use_others(sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    for (folder, layers) in LAYERED {
        for ((from, to), file) in arrows(folder, sources) {
            if layers[0].contains(&from.as_str()) {
                found.push(format!("{from} uses {to} in {}", file.display()));
            }
        }
    }
    found
}

/// Modules that need one another.
fn cycles_of_modules(sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    for (folder, _) in LAYERED {
        let mut uses: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> = BTreeMap::new();
        for (from, to) in arrows(folder, sources).into_keys() {
            uses.entry(vec![from]).or_default().insert(vec![to]);
        }
        found.extend(imports::cycles(&uses).iter().map(named));
    }
    found
}

/// Files of a package that need one another.
fn cycles_of_files(sources: &Sources) -> Vec<String> {
    let cycles = source_folders().into_iter().flat_map(|folder| {
        let files = inside(&folder, sources);
        imports::cycles(&imports::Imports::of(&files).all())
    });
    cycles.map(|cycle| named(&cycle)).collect()
}

fn named(cycle: &BTreeSet<Vec<String>>) -> String {
    format!(
        "a cycle: {}",
        cycle
            .iter()
            .map(|module| module.join("::"))
            .collect::<Vec<_>>()
            .join(", ")
    )
}

/// Files that name a library which they are not to know.
fn libraries_out_of_place(sources: &Sources) -> Vec<String> {
    let mut wrong = Vec::new();
    for (file, text) in sources {
        let (code, path) = (code(text), file.display().to_string());
        for (name, places) in KNOWN_TO {
            let is_named =
                code.contains(&format!("{name}::")) || code.contains(&format!("use {name}"));
            if is_named && !places.iter().any(|place| path.starts_with(place)) {
                wrong.push(format!("{path} names {name}"));
            }
        }
    }
    wrong
}

/// Dependencies of packages that their sources do not name.
fn unused_dependencies(sources: &Sources) -> Vec<String> {
    let manifests = source_folders().into_iter().map(|folder| {
        let manifest = Path::new(&folder).with_file_name("Cargo.toml");
        (folder, manifest)
    });
    let mut unused = Vec::new();
    for (folder, manifest) in manifests {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&manifest));
        let text = text.unwrap();
        let dependencies = text
            .split_once("\n[dependencies]\n")
            .map(|(_, rest)| rest.split("\n[").next().unwrap_or_default());
        let files = inside(&folder, sources);
        let code: Vec<String> = files.iter().map(|(_, text)| code(text)).collect();
        for line in dependencies.unwrap_or_default().lines() {
            let Some(name) = word(line.replace('-', "_").as_str()) else {
                continue;
            };
            let is_named = |code: &String| {
                code.contains(&format!("{name}::")) || code.contains(&format!("use {name}"))
            };
            if !code.iter().any(is_named) {
                unused.push(format!("{} names {name}", manifest.display()));
            }
        }
    }
    unused
}

/// Files without a first line that says what they are.
fn files_without_a_word(sources: &Sources) -> Vec<String> {
    let silent = sources.iter().filter(|(_, text)| !text.starts_with("//! "));
    silent
        .map(|(file, _)| format!("{} does not say what it is", file.display()))
        .collect()
}

/// Files that no other file declares as a module, so that nothing compiles them.
fn undeclared_files(sources: &Sources) -> Vec<String> {
    let tests = below("tests/promises");
    let mut texts: BTreeMap<&Path, &str> = BTreeMap::new();
    texts.extend(
        sources
            .iter()
            .chain(&tests)
            .map(|(file, text)| (&**file, &**text)),
    );
    let is_declared = |file: &Path| {
        let folder = file.parent().unwrap();
        let stem = file.file_stem().unwrap();
        // The module, and the folder of what its parent declares.
        let (name, folder) = if stem == "mod" {
            (folder.file_name().unwrap(), folder.parent().unwrap())
        } else {
            (stem, folder)
        };
        let parents = [
            folder.with_extension("rs"),
            folder.join("mod.rs"),
            folder.join("lib.rs"),
            folder.join("main.rs"),
        ];
        let declaration = format!("mod {};", name.to_str().unwrap());
        parents.iter().any(|parent| {
            texts
                .get(&**parent)
                .is_some_and(|text| text.contains(&declaration))
        })
    };
    let is_root = |file: &Path| file.ends_with("lib.rs") || file.ends_with("main.rs");
    texts
        .keys()
        .filter(|file| !is_root(file) && !is_declared(file))
        .map(|file| format!("no file declares {}", file.display()))
        .collect()
}

/// A claim over sources: what contradicts it.
type Claim = fn(&Sources) -> Vec<String>;

const CLAIMS: [Claim; 9] = [
    arrows_that_run_up,
    lowest_modules_that_use_others,
    cycles_of_modules,
    cycles_of_files,
    libraries_out_of_place,
    unused_dependencies,
    files_without_a_word,
    undeclared_files,
    public_items::unused,
];

#[test]
fn modules_and_files_are_in_order() {
    let sources = sources();
    let wrong: Vec<String> = CLAIMS.iter().flat_map(|claim| claim(&sources)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_claim_finds_its_fault() {
    let faults: [(Claim, &str, &str, &str); 18] = [
        (
            arrows_that_run_up,
            "src/admin_socket/new.rs",
            "//! A\nuse crate::{logging::Log, controller::Controller};",
            "admin_socket uses controller, which is above it, in src/admin_socket/new.rs",
        ),
        (
            arrows_that_run_up,
            "crates/policy/src/access/new.rs",
            "//! A\nuse crate::{change::Change, posture::Evidence};",
            "access uses posture, which is above it, in crates/policy/src/access/new.rs",
        ),
        (
            arrows_that_run_up,
            "crates/fabric/src/network/new.rs",
            "//! A\nuse crate::{peer_lines::may_log, control_channel::Control};",
            "network uses control_channel, which is above it, in crates/fabric/src/network/new.rs",
        ),
        (
            lowest_modules_that_use_others,
            "src/logging/new.rs",
            "//! A\nuse crate::jobs::Jobs;",
            "logging uses jobs in src/logging/new.rs",
        ),
        (
            lowest_modules_that_use_others,
            "crates/policy/src/priority.rs",
            "//! A\nuse crate::access::Access;",
            "priority uses access in crates/policy/src/priority.rs",
        ),
        (
            cycles_of_modules,
            "crates/fabric/src/network/new.rs",
            "//! A\nfn f() { crate::built_in_router::relay(); }",
            "built_in_router, network",
        ),
        (
            cycles_of_modules,
            "crates/policy/src/change/new.rs",
            "//! A\nfn f() { crate::posture::evaluation(); }",
            "change, posture",
        ),
        (
            cycles_of_files,
            "crates/store/src/tx/tables.rs",
            "//! A\nuse super::read::Read;",
            "tx::read, tx::tables",
        ),
        (
            cycles_of_files,
            "crates/fabric/src/built_in_router/channel.rs",
            "//! A\nuse super::connections::Connections;",
            "built_in_router::channel",
        ),
        // By way of a re-export, by way of an imported module, and in a re-export that is used.
        (
            cycles_of_files,
            "crates/model/src/entity/kind.rs",
            "//! A\nuse super::{Record, Tags};",
            "entity::kind, entity::record",
        ),
        (
            cycles_of_files,
            "crates/store/src/index.rs",
            "//! A\nuse super::tx;\nfn f() { tx::edit::check_every(); }",
            "index, ",
        ),
        (
            cycles_of_files,
            "crates/wire/src/frame/head.rs",
            "//! A\nuse super::build::Builder;",
            "frame::build, frame::head",
        ),
        (
            libraries_out_of_place,
            "crates/store/src/list/list_plan.rs",
            "//! A\nuse redb::Table;",
            "crates/store/src/list/list_plan.rs names redb",
        ),
        // The only file that names it.
        (
            unused_dependencies,
            "crates/rest/src/route.rs",
            "//! A",
            "Cargo.toml names matchit",
        ),
        (
            files_without_a_word,
            "src/jobs.rs",
            "use std::fmt;",
            "src/jobs.rs does not say what it is",
        ),
        (
            undeclared_files,
            "crates/fabric/src/network/forgotten.rs",
            "//! A",
            "no file declares crates/fabric/src/network/forgotten.rs",
        ),
        (
            public_items::unused,
            "crates/pki/src/new.rs",
            "//! A\n// named_by_nothing();\npub const fn named_by_nothing() {}\n#[cfg(test)]\nmod tests { use named_by_nothing; }",
            "nothing names named_by_nothing of crates/pki/src/new.rs",
        ),
        // A function of the tests' harness has this name.
        (
            public_items::unused,
            "crates/pki/src/new.rs",
            "//! A\npub fn try_openssl() {}",
            "only tests name try_openssl of crates/pki/src/new.rs",
        ),
    ];
    for (claim, file, text, fault) in faults {
        let mut wrong = sources();
        wrong.retain(|(known, _)| known != Path::new(file));
        wrong.push((file.into(), text.into()));
        let found = claim(&wrong);
        assert!(
            found.iter().any(|found| found.contains(fault)),
            "{file}: {found:#?} does not contain {fault}"
        );
    }
}
