//! Which state of the sources a program was built from, and when: `revision` and `buildDate` of GET
//! /version.
//!
//! Neither git nor a repository is required. `OVERKEEP_REVISION` and `SOURCE_DATE_EPOCH` (seconds
//! since 1970, for builds that are to be the same bit by bit) say it for whoever builds from an
//! archive. Invariant: what is not known is `unknown`, and sources that differ from their revision
//! are marked `-modified` wherever git can tell.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

/// What a change of makes another program.
const SOURCES: [&str; 4] = ["src", "Cargo.toml", "Cargo.lock", "build.rs"];
/// The same in each of the libraries of `crates/`, whose tests change no program.
const LIBRARY_SOURCES: [&str; 2] = ["src", "Cargo.toml"];

fn main() {
    let project = env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .unwrap_or_default();
    for name in ["OVERKEEP_REVISION", "SOURCE_DATE_EPOCH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    for path in SOURCES {
        println!("cargo::rerun-if-changed={path}");
    }
    for library in fs::read_dir(project.join("crates"))
        .into_iter()
        .flatten()
        .flatten()
    {
        for name in LIBRARY_SOURCES {
            println!(
                "cargo::rerun-if-changed={}",
                library.path().join(name).display()
            );
        }
    }
    // A commit alone changes no source: a build for development is not made anew for it, and names
    // the state that it was built from.
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        for path in git_directory(&project)
            .iter()
            .flat_map(|git| heads(git))
            .filter(|path| path.exists())
        {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let given = env::var("OVERKEEP_REVISION")
        .ok()
        .filter(|given| !given.trim().is_empty());
    let revision = given
        .or_else(|| revision(&project).map(|found| found + modified(&project)))
        .unwrap_or_else(|| "unknown".into());
    println!(
        "cargo::rustc-env=OVERKEEP_REVISION={}",
        revision.lines().next().unwrap_or_default().trim()
    );
    println!("cargo::rustc-env=OVERKEEP_BUILD_DATE={}", date(seconds()));
}

/// What git keeps of a project's own repository, if it has one. That of a project around it says
/// nothing about this one.
fn git_directory(project: &Path) -> Option<PathBuf> {
    let git = project.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    // A second working tree has a file that leads there.
    let text = fs::read_to_string(&git).ok()?;
    Some(project.join(text.strip_prefix("gitdir:")?.trim()))
}

/// Where branches are: in what a working tree shares with the others, if it does.
fn common(git: &Path) -> PathBuf {
    fs::read_to_string(git.join("commondir"))
        .map_or_else(|_| git.to_owned(), |text| git.join(text.trim()))
}

/// The files that change when another revision is looked at.
fn heads(git: &Path) -> Vec<PathBuf> {
    let head = git.join("HEAD");
    let branch = fs::read_to_string(&head)
        .ok()
        .and_then(|text| Some(common(git).join(text.strip_prefix("ref:")?.trim())));
    [Some(head), branch, Some(common(git).join("packed-refs"))]
        .into_iter()
        .flatten()
        .collect()
}

/// The revision that the sources are of, read from files.
pub fn revision(project: &Path) -> Option<String> {
    let git = git_directory(project)?;
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let Some(branch) = head.strip_prefix("ref:").map(str::trim) else {
        return hash(&head);
    };
    let loose = fs::read_to_string(common(&git).join(branch)).ok();
    let packed = || {
        let text = fs::read_to_string(common(&git).join("packed-refs")).ok()?;
        text.lines()
            .find_map(|line| hash(line.strip_suffix(branch)?.strip_suffix(' ')?))
    };
    loose.as_deref().and_then(hash).or_else(packed)
}

/// A hash of SHA-1 or SHA-256, and nothing else.
pub fn hash(text: &str) -> Option<String> {
    let text = text.trim();
    ([40, 64].contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .then(|| text.to_owned())
}

/// What stands behind the revision of sources that git says are not its own.
pub fn modified(project: &Path) -> &'static str {
    let status = Command::new("git")
        .current_dir(project)
        .args(["status", "--porcelain", "--"])
        .args(SOURCES)
        // A `*` of git also stands for folders below.
        .args(["crates/*/src/*", "crates/*/Cargo.toml"])
        .output();
    if status.is_ok_and(|status| status.status.success() && !status.stdout.is_empty()) {
        "-modified"
    } else {
        ""
    }
}

/// Now, or the time that stands in for it; in seconds since 1970.
fn seconds() -> u64 {
    let given = env::var("SOURCE_DATE_EPOCH")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    given.unwrap_or_else(|| {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.as_secs())
    })
}

/// A time in UTC as RFC 3339 writes it, by the civil calendar counted from March: leap days end its
/// years then.
pub fn date(seconds: u64) -> String {
    let (day, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (day, month) = (
        of_year - (153 * month + 2) / 5 + 1,
        if month < 10 { month + 3 } else { month - 9 },
    );
    let year = era * 400 + year + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}
