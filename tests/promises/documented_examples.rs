//! The examples in `docs/`: the commands of each page run in order on a new data file.
//!
//! A block marked `bash` is run. A block marked `text` directly after it is what it prints. A block
//! marked `console` is not run, and `NOT_RUN` has its reason. `tests/readme/run` runs the blocks of
//! the README, which download a client library.

use std::{env, fs, path::Path, process::Command};

use crate::{
    command_line::{Ran, isolated},
    documentation::pages,
    harness::TestServer,
};

/// Blocks without commands. Other tests check their content.
const DATA: [&str; 3] = ["json", "yaml", "mermaid"];

const MOVE: &str = "it needs the controller that is replaced; the case moving of tests/interop moves a network in and out";

const PACKAGES: &str = "it installs packages and builds the program, the package and the image; .ci/packaging builds them";

/// The blocks that are shown and not run: page, first line, reason.
const NOT_RUN: [(&str, &str, &str); 18] = [
    (
        "README.md",
        "cargo install --locked --path .",
        "it builds the program that the other blocks run",
    ),
    (
        "README.md",
        "cargo test --locked",
        "it is the command that runs this test",
    ),
    (
        "client.md",
        "dpkg -i dist/overkeep-client_*.deb",
        "it installs a package and starts a unit; .ci/packaging does that in a directory",
    ),
    (
        "contributing.md",
        ".ci/quick                what changed since the branch left main, with what is not committed",
        "they are the gate and parts of it, and this test is one of them",
    ),
    (
        "install.md",
        "apt install --yes git gcc make rustup",
        PACKAGES,
    ),
    (
        "install.md",
        "apt install --yes musl-tools python3",
        PACKAGES,
    ),
    (
        "install.md",
        "podman build --file examples/packaging/Containerfile --tag overkeep dist",
        PACKAGES,
    ),
    (
        "moving.md",
        "overkeep export --openziti > network.yaml",
        MOVE,
    ),
    (
        "moving.md",
        "overkeep import --from https://old.example:1280 --user admin --password-file password --into overkeep.redb \\",
        MOVE,
    ),
    (
        "moving.md",
        "overkeep pki adopt --signing-cert signing.cert --signing-key signing.key --root-bundle cas.pem",
        "it needs an authority; tests/day makes one and runs it",
    ),
    (
        "moving.md",
        "overkeep run --data overkeep.redb --listen 0.0.0.0:1280 --advertise old.example:1280",
        MOVE,
    ),
    (
        "moving.md",
        "overkeep update edge-router built-in --role-attributes built-in,public",
        MOVE,
    ),
    (
        "network.md",
        "nft add rule inet filter input tcp dport 1280 accept",
        "it changes the firewall of the host",
    ),
    (
        "operating.md",
        "dpkg -i dist/overkeep_*.deb",
        "it installs a package and starts a unit; .ci/packaging does that in a directory",
    ),
    (
        "routers.md",
        "ziti router enroll router.yml --jwt oslo.jwt",
        "it needs another program; the cases router-* of tests/interop run it",
    ),
    (
        "security.md",
        "overkeep run --passphrase-file passphrase",
        "it runs until a signal ends it; the module sealed_keys starts it",
    ),
    (
        "tunneler.md",
        "shop$ ziti edge enroll shop.jwt -o shop.json && rm shop.jwt",
        "two more hosts; the cases traffic-tunnelers run it",
    ),
    (
        "upgrade.md",
        "systemctl stop overkeep",
        "it needs systemd and a package of another release; the module upgrades opens its files",
    ),
];

/// The blocks that show the output of something that is not run on the page: page, first line,
/// reason.
const OUTPUT_OF_OTHERS: [(&str, &str, &str); 2] = [
    (
        "README.md",
        "overkeep listens on 127.0.0.1:1280 and is reached at https://127.0.0.1:1280",
        "of a first start, with a random password",
    ),
    (
        "upgrade.md",
        "overkeep: /var/lib/overkeep/overkeep.redb was written by a newer release: it has format 4, this release reads up to 3",
        "of an earlier release",
    ),
];

/// A fenced block of a page.
struct Block<'p> {
    language: &'p str,
    body: String,
    /// It shows what the `bash` block printed that stands directly before it.
    is_output: bool,
}

impl Block<'_> {
    fn first_line(&self) -> &str {
        self.body.lines().next().unwrap_or_default()
    }
}

/// The blocks of a page, in order. A block in a list is indented.
fn blocks(text: &str) -> Vec<Block<'_>> {
    let (mut lines, mut found, mut is_directly_after) =
        (text.lines(), Vec::<Block<'_>>::new(), false);
    while let Some(line) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            is_directly_after &= line.trim().is_empty();
            continue;
        };
        let indentation = line.len() - line.trim_start().len();
        let inside = lines
            .by_ref()
            .take_while(|line| !line.trim_start().starts_with("```"));
        let body = inside
            .map(|line| line.get(indentation..).unwrap_or_default())
            .collect::<Vec<_>>()
            .join("\n");
        let after_commands =
            is_directly_after && found.last().is_some_and(|block| block.language == "bash");
        found.push(Block {
            language,
            body,
            is_output: after_commands && language == "text",
        });
        is_directly_after = true;
    }
    found
}

/// The pages by file name.
fn named_pages() -> Vec<(String, String)> {
    pages()
        .into_iter()
        .map(|(path, text)| (path.file_name().unwrap().to_str().unwrap().to_owned(), text))
        .collect()
}

#[test]
fn every_block_is_run_or_justified() {
    let (mut shown, mut printed) = (Vec::new(), Vec::new());
    let pages = named_pages();
    for (page, text) in &pages {
        for block in blocks(text) {
            match block.language {
                "console" => shown.push((page.as_str(), block.first_line().to_owned())),
                "text" if !block.is_output => {
                    printed.push((page.as_str(), block.first_line().to_owned()))
                }
                "text" | "bash" => {}
                data => assert!(
                    DATA.contains(&data),
                    "{page} has a block marked {data:?} that begins with {:?}",
                    block.first_line()
                ),
            }
        }
    }
    let sorted = |mut found: Vec<(&str, String)>, listed: &[(&'static str, &str, &str)]| {
        found.sort();
        let listed: Vec<(&str, String)> = listed
            .iter()
            .map(|(page, line, _)| (*page, (*line).to_owned()))
            .collect();
        assert_eq!(found, listed);
    };
    sorted(shown, &NOT_RUN);
    sorted(printed, &OUTPUT_OF_OTHERS);
}

/// Runs the `bash` blocks of a page in one shell, at a new controller. `old` is the controller that
/// another one replaces.
fn run_page(page: &str, text: &str, old: &TestServer) {
    let (server, home) = (TestServer::start(), tempfile::TempDir::new().unwrap());
    let directory = home.path();
    let blocks = blocks(text);
    let commands: Vec<&str> = blocks
        .iter()
        .filter(|block| block.language == "bash")
        .map(|block| block.body.as_str())
        .collect();
    let script = format!("set -euo pipefail\n{}", commands.join("\n"))
        .replace(
            "https://controller.example:1280",
            &format!("https://{}", server.bound()),
        )
        .replace(
            "https://old.example:1280",
            &format!("https://{}", old.bound()),
        );
    fs::write(directory.join("password"), &server.password).unwrap();
    fs::write(directory.join("old-password"), &old.password).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_overkeep"));
    std::os::unix::fs::symlink(binary, directory.join("overkeep-NEW")).unwrap();
    let path = format!(
        "{}:{}",
        binary.parent().unwrap().display(),
        env::var("PATH").unwrap()
    );
    let output = isolated(Command::new("bash"), directory)
        .args(["-c", &script])
        .env("PATH", path)
        .env("OVERKEEP_DATA", server.data())
        .output();
    let printed = Ran::of(format!("{page}\n{script}"), output.unwrap()).good();
    for shown in blocks.iter().filter(|block| block.is_output) {
        assert!(
            printed.contains(shown.body.trim()),
            "{page} shows {:?}, the commands print {printed}",
            shown.body
        );
    }
}

#[test]
fn commands_of_every_page_work() {
    let old = TestServer::start();
    old.service("from-the-old-controller", serde_json::json!({}));
    let with_commands = |(page, text): &(String, String)| {
        page != "README.md" && blocks(text).iter().any(|block| block.language == "bash")
    };
    let pages: Vec<(String, String)> = named_pages().into_iter().filter(with_commands).collect();
    for (page, text) in &pages {
        run_page(page, text, &old);
    }
    let names: Vec<&str> = pages.iter().map(|(page, _)| page.as_str()).collect();
    for page in [
        "lost-device.md",
        "operating.md",
        "routers.md",
        "security.md",
        "tunneler.md",
        "upgrade.md",
    ] {
        assert!(names.contains(&page), "{page} has no commands");
    }
}
