//! The program reports its revision correctly, or that it is unknown: with a repository, without
//! one, without git.

use std::{fs, path::Path, process::Command};

use tempfile::TempDir;

use crate::harness::shared;

/// The build script itself; running it is not tested here.
#[path = "../../build.rs"]
#[allow(dead_code)]
mod script;

const ONE: &str = "0123456789abcdef0123456789abcdef01234567";
const OTHER: &str = "89abcdef0123456789abcdef0123456789abcdef";

#[test]
fn version_names_revision_and_date() {
    let version = shared().anonymous().get("/version").expect(200);
    let version = version.data();
    let date = time::OffsetDateTime::parse(
        version["buildDate"].as_str().unwrap(),
        &time::format_description::well_known::Rfc3339,
    );
    assert!(
        date.unwrap().year() >= 2026 || std::env::var_os("SOURCE_DATE_EPOCH").is_some(),
        "{version}"
    );
    let (revision, project) = (
        version["revision"].as_str().unwrap(),
        Path::new(env!("CARGO_MANIFEST_DIR")),
    );
    match script::revision(project) {
        Some(_) => assert!(
            script::hash(revision.trim_end_matches("-modified")).is_some(),
            "{revision}"
        ),
        None => assert!(!revision.is_empty()),
    }
}

#[test]
fn revision_is_found_without_git() {
    let place = TempDir::new().unwrap();
    let (project, git) = (
        place.path().join("project"),
        place.path().join("project/.git"),
    );
    let write = |path: &str, text: &str| {
        let path = place.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    // An archive unpacked inside another repository.
    write(".git/HEAD", ONE);
    fs::create_dir_all(&project).unwrap();
    assert_eq!(script::revision(&project), None);

    write("project/.git/HEAD", &format!("{ONE}\n"));
    assert_eq!(
        script::revision(&project).as_deref(),
        Some(ONE),
        "a detached head"
    );
    write("project/.git/HEAD", "ref: refs/heads/main\n");
    assert_eq!(
        script::revision(&project),
        None,
        "a branch without a commit"
    );
    write(
        "project/.git/packed-refs",
        &format!("# pack-refs\n{ONE} refs/heads/not-main\n{OTHER} refs/heads/main\n"),
    );
    assert_eq!(script::revision(&project).as_deref(), Some(OTHER));
    write("project/.git/refs/heads/main", &format!("{ONE}\n"));
    assert_eq!(
        script::revision(&project).as_deref(),
        Some(ONE),
        "a loose ref is newer than a packed one"
    );

    write(
        "tree/.git",
        &format!("gitdir: {}\n", git.join("worktrees/tree").display()),
    );
    write("project/.git/worktrees/tree/HEAD", "ref: refs/heads/side\n");
    write("project/.git/worktrees/tree/commondir", "../..\n");
    write("project/.git/refs/heads/side", OTHER);
    assert_eq!(
        script::revision(&place.path().join("tree")).as_deref(),
        Some(OTHER)
    );
    for odd in ["", "ref: refs/heads/.invalid", "0123", "$(touch here)"] {
        write("project/.git/HEAD", odd);
        assert_eq!(script::revision(&project), None, "{odd}");
    }
}

#[test]
fn changed_sources_are_marked() {
    let place = TempDir::new().unwrap();
    let git = |line: &[&str]| {
        Command::new("git")
            .current_dir(place.path())
            .args(line)
            .output()
            .is_ok_and(|done| done.status.success())
    };
    if !git(&["init", "-q"]) {
        return eprintln!("no git: nothing to compare with, and nothing is marked");
    }
    fs::create_dir(place.path().join("src")).unwrap();
    fs::write(place.path().join("src/main.rs"), "fn main() {}").unwrap();
    for folder in ["crates/part/src/inner", "crates/part/tests"] {
        fs::create_dir_all(place.path().join(folder)).unwrap();
        fs::write(place.path().join(folder).join("one.rs"), "fn one() {}").unwrap();
    }
    assert!(
        git(&["add", "."])
            && git(&[
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@example.org",
                "commit",
                "-q",
                "-m",
                "first"
            ])
    );
    assert_eq!(script::modified(place.path()), "");
    fs::write(
        place.path().join("README.md"),
        "of no matter to the program",
    )
    .unwrap();
    fs::write(
        place.path().join("crates/part/tests/one.rs"),
        "fn one() { }",
    )
    .unwrap();
    assert_eq!(script::modified(place.path()), "");
    for (file, first) in [
        ("src/main.rs", "fn main() {}"),
        ("crates/part/src/inner/one.rs", "fn one() {}"),
    ] {
        fs::write(place.path().join(file), "fn other() {}").unwrap();
        assert_eq!(script::modified(place.path()), "-modified", "{file}");
        fs::write(place.path().join(file), first).unwrap();
    }
}

#[test]
fn dates_are_those_of_the_calendar() {
    for (seconds, date) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_399, "2000-02-28T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (1_709_251_199, "2024-02-29T23:59:59Z"),
        (1_735_689_600, "2025-01-01T00:00:00Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
    ] {
        assert_eq!(script::date(seconds), date);
    }
}
