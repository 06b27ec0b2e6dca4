//! What shells and `man` read about the command line.

use std::{fs, process::Command};

use crate::{
    command_line::{Ran, on_host, on_host_with},
    harness::{TestServer, fresh},
};

/// The completions of the last word, as the script of a shell asks for them.
fn completed(server: &TestServer, shell: &str, words: &[&str]) -> Vec<String> {
    let index = words.len().to_string();
    let variables = [
        ("_OVERKEEP_COMPLETE", shell),
        ("_CLAP_COMPLETE_INDEX", &index),
        ("_CLAP_IFS", "\n"),
    ];
    let printed = on_host_with(server, &variables, &[&["--", "overkeep"], words].concat()).good();
    // zsh gets a description after a colon, fish after a tab.
    printed
        .lines()
        .map(|line| line.split(['\t', ':']).next().unwrap().to_owned())
        .collect()
}

#[test]
fn shells_complete_kinds_and_members() {
    let server = &TestServer::start();
    for shell in ["bash", "zsh", "fish"] {
        let of = |words: &[&str]| completed(server, shell, words);
        assert!(
            of(&["create", ""]).contains(&"service-policy".to_owned()),
            "{shell}"
        );
        assert!(
            of(&["create", "service-policy", "--iden"]).contains(&"--identity-roles".to_owned()),
            "{shell}"
        );
        assert_eq!(of(&["re-en"]), ["re-enroll"], "{shell}");
        assert_eq!(
            of(&["create", "service-policy", "--semantic", "Any"]),
            ["AnyOf"],
            "{shell}"
        );
        assert_eq!(
            of(&["create", "api-token", "--actions", "dis"]),
            ["disable"],
            "{shell}"
        );
        assert_eq!(
            of(&["create", "api-token", "--kinds", "services,service-pol"]),
            ["services,service-policies"],
            "{shell}"
        );
        assert!(
            on_host(server, &["completions", shell])
                .good()
                .contains("_OVERKEEP_COMPLETE"),
            "{shell}"
        );
    }
    on_host(server, &["completions", "csh"]).bad(2, &["csh"]);
    on_host(
        server,
        &["create", "api-token", "x", "--actions", "read,write"],
    )
    .bad(2, &["write", "disable"]);
}

#[test]
fn shells_complete_names_of_records() {
    let server = &TestServer::start();
    let [alice, albert] = ["zz-alice", "zz-albert"].map(fresh);
    for name in [&alice, &albert] {
        on_host(server, &["create", "identity", name]).good();
    }
    let of = |words: &[&str]| completed(server, "bash", words);
    assert_eq!(
        of(&["show", "identity", "zz-ali"]),
        std::slice::from_ref(&alice)
    );
    assert_eq!(
        of(&["delete", "identities", &alice, "zz-alb"]),
        std::slice::from_ref(&albert)
    );
    assert_eq!(
        of(&["create", "service-policy", "--identity-roles", "@zz-ali"]),
        [format!("@{alice}")]
    );
    assert_eq!(
        of(&["create", "authenticator", "--identity-id", "zz-alb"]),
        [albert]
    );
    assert_eq!(of(&["show", "service", "zz-ali"]), [""; 0]);
    assert_eq!(of(&["show", "identity", "no \"such"]), [""; 0]);
    // Nothing is offered and nothing is said if no controller answers.
    assert_eq!(
        completed(
            server,
            "bash",
            &["show", "--data", "nowhere", "identity", "zz"]
        ),
        [""; 0]
    );
}

#[test]
fn bash_takes_the_script() {
    let server = &TestServer::start();
    let name = fresh("zz-carol");
    on_host(server, &["create", "identity", &name]).good();
    let script = on_host(server, &["completions", "bash"]).good();
    let typed = "COMP_WORDS=(overkeep show identity zz-c); COMP_CWORD=3; COMP_TYPE=9; _clap_complete_overkeep overkeep zz-c identity";
    let path = format!("{}:{}", binaries(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args([
            "-c",
            &format!("{script}\n{typed}; printf %s \"${{COMPREPLY[@]}}\""),
        ])
        .env("PATH", path)
        .env("OVERKEEP_DATA", server.data())
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        name,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn bash_completes_quoted_names() {
    let server = &TestServer::start();
    let name = format!("zz {} smith", fresh("dora"));
    on_host(server, &["create", "identity", &name]).good();
    let script = on_host(server, &["completions", "bash"]).good();
    let path = format!("{}:{}", binaries(), std::env::var("PATH").unwrap());
    // What readline quotes cannot be seen without a terminal; that the script asks for it can.
    for typed in ["zz\\ dora", "'zz dora", "\"zz dora"] {
        let words = format!(
            "COMP_WORDS=(overkeep show identity ''); COMP_CWORD=3; COMP_TYPE=9; word={}",
            quoted(typed)
        );
        let asks = "compopt() { printf '%s;' \"$*\"; }; _overkeep_quoting overkeep \"$word\" identity; printf %s \"${COMPREPLY[@]}\"";
        let output = Command::new("bash")
            .args(["-c", &format!("{script}\n{words}; {asks}")])
            .env("PATH", &path)
            .env("OVERKEEP_DATA", server.data())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(
            said.ends_with(&format!("-o filenames;{name}")),
            "{typed}: {said} {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert!(
        script.contains("-F _overkeep_quoting overkeep") && !script.contains("-F _clap"),
        "{script}"
    );
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn binaries() -> String {
    std::path::Path::new(env!("CARGO_BIN_EXE_overkeep"))
        .parent()
        .unwrap()
        .display()
        .to_string()
}

#[test]
fn each_command_has_a_page() {
    let server = &TestServer::start();
    let directory = server.data().with_file_name("man1");
    on_host(server, &["man", directory.to_str().unwrap()]).good();
    let page = |name: &str| {
        fs::read_to_string(directory.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    for name in [
        "overkeep.1",
        "overkeep-run.1",
        "overkeep-list-services.1",
        "overkeep-sessions.1",
    ] {
        assert!(page(name).starts_with(".ie"), "{name}");
    }
    assert!(page("overkeep-create-service-policy.1").contains("identity\\-roles"));
    assert!(!directory.join("overkeep-fabric.1").exists());
    let file = server.data();
    let refused: Ran = on_host(server, &["man", file.to_str().unwrap()]);
    refused.bad(1, &[file.to_str().unwrap()]);
}
