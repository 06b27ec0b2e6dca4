//! What `cargo test` leaves out, the gate runs by name.

use std::{fs, path::Path};

/// The reasons of the tests below a directory that `cargo test` leaves out.
fn reasons(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            found.extend(reasons(&path));
        } else if path.extension().is_some_and(|name| name == "rs") {
            found.extend(left_out(&fs::read_to_string(path).unwrap()));
        }
    }
    found
}

fn left_out(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("#[ignore"))
        .map(|rest| rest.trim_end_matches(']').trim_start_matches(" = ").into())
        .collect()
}

#[test]
fn ignored_tests_are_endurance() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = ["src", "tests", "crates"]
        .map(|name| root.join(name))
        .iter()
        .filter(|path| path.is_dir())
        .flat_map(|path| reasons(path))
        .collect::<Vec<_>>();
    assert!(found.iter().any(|reason| reason == "\"endurance\""));
    let others: Vec<_> = found
        .iter()
        .filter(|reason| *reason != "\"endurance\"" && !reason.starts_with("\"the child of"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(
        left_out("    #[ignore]\n#[ignore = \"slow\"]\n"),
        ["", "\"slow\""]
    );
}

#[test]
fn gate_runs_ignored_tests() {
    let gate = include_str!("../../.ci/run");
    assert!(gate.contains("\nendurance() { cargo test --locked -- --ignored; }\n"));
    let lanes = ["clients", "browser", "tests"].map(|name| format!("\n{name}=("));
    let steps = gate
        .lines()
        .filter(|line| lanes.iter().any(|lane| line.starts_with(lane.trim_start())))
        .collect::<String>();
    assert!(steps.contains(" endurance"), "{steps}");
}
