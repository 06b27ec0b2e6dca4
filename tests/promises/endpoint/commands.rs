//! The commands, as programs.

use std::{
    io::{Read, Write},
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::router::scene::{run, runtime};

use super::{Network, bind, enrolled, token, written};
use crate::harness::{TestServer, fresh};
use serde_json::json;

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_overkeep"))
}

/// A program that is killed at the end of a test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn enroll_writes_a_file_once_and_says_where() {
    let server = TestServer::start();
    let id = server.identity(&fresh("alice"), json!({ "enrollment": { "ott": true } }));
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("alice.jwt"), token(&server, &id)).unwrap();
    let enroll = || {
        let command = ["enroll", "alice.jwt"];
        program()
            .args(command)
            .current_dir(directory.path())
            .output()
            .unwrap()
    };
    let first = enroll();
    assert!(first.status.success(), "{first:?}");
    let written = std::fs::read(directory.path().join("alice.json")).unwrap();
    let second = enroll();
    assert_eq!(second.status.code(), Some(1));
    let text = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(
        text,
        "overkeep: alice.json exists: choose another file with --output\n"
    );
    assert_eq!(
        std::fs::read(directory.path().join("alice.json")).unwrap(),
        written
    );
}

#[test]
fn standard_streams_hold_data_only() {
    let network = Network::new(true);
    let directory = tempfile::tempdir().unwrap();
    let [dialer, host] = [
        (&network.dialer, "dialer.json"),
        (&network.host, "host.json"),
    ]
    .map(|(identity, name)| {
        let path = directory.path().join(name);
        written(identity, &path);
        path
    });
    let echo = run(async {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = server.accept().await {
                let (mut input, mut output) = socket.split();
                drop(tokio::io::copy(&mut input, &mut output).await);
            }
        });
        address
    });
    let forward = |input: &[u8]| {
        let mut child = program()
            .arg("forward")
            .arg("-i")
            .arg(&dialer)
            .args([&network.service, "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A program that fails reads nothing.
        drop(child.stdin.take().unwrap().write_all(input));
        child.wait_with_output().unwrap()
    };
    // Nobody hosts the service.
    let refused = forward(b"");
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stdout.is_empty());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.starts_with("overkeep: ") && text.contains("has no terminators"),
        "{text}"
    );
    let hosting = program()
        .arg("host")
        .arg("-i")
        .arg(&host)
        .args([&network.service, &echo])
        .stderr(Stdio::null())
        .spawn();
    let _hosting = Running(hosting.unwrap());
    let data: Vec<u8> = (0..300_000_u32).map(|at| (at % 253) as u8).collect();
    let end = std::time::Instant::now() + Duration::from_secs(30);
    let done = loop {
        let done = forward(&data);
        if done.status.success() || std::time::Instant::now() > end {
            break done;
        }
    };
    assert!(
        done.status.success(),
        "{:?}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(done.stdout == data);
    assert!(done.stderr.is_empty());
}

#[test]
fn the_end_of_what_the_host_sends_reaches_who_reads() {
    let network = Network::new(true);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dialer.json");
    written(&network.dialer, &path);
    let service = network.service.clone();
    let mut binding = run(async {
        let (session, described) = network.session(&network.host).await;
        bind(&session, &described).await.unwrap()
    });
    let hosting = runtime().spawn(async move {
        let connection = binding.next().await.unwrap().accept().await.unwrap();
        let (mut sender, receiver) = connection.split();
        sender.send(b"all there is").await.unwrap();
        sender.finish().await.unwrap();
        // It still receives.
        std::future::pending::<()>().await;
        drop(receiver);
    });
    let mut child = program()
        .arg("forward")
        .arg("-i")
        .arg(&path)
        .args([&service, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Its input stays open.
    let input = child.stdin.take();
    let mut output = child.stdout.take().unwrap();
    let _child = Running(child);
    let reading = std::thread::spawn(move || {
        let mut text = Vec::new();
        output.read_to_end(&mut text).unwrap();
        text
    });
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while !reading.is_finished() && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(reading.is_finished(), "standard output does not end");
    assert_eq!(reading.join().unwrap(), b"all there is");
    drop(input);
    hosting.abort();
}

#[test]
fn wrong_words_are_named() {
    let (server, directory) = (TestServer::start(), tempfile::tempdir().unwrap());
    let (_, identity) = enrolled(&server, "alice");
    let path = directory.path().join("alice.json");
    written(&identity, &path);
    let path = path.to_str().unwrap();
    let cases: [(&[&str], i32, &str); 5] = [
        (
            &["forward", "-i", path, "web", "nowhere"],
            2,
            "nowhere: it must be",
        ),
        (
            &["forward", "-i", path, "web", "-", "db", "-"],
            2,
            "one service only",
        ),
        (
            &["forward", "-i", path, "web", "127.0.0.1:1", "db"],
            2,
            "LISTEN",
        ),
        (&["host", "-i", path, "web", "80"], 2, "80: it must be"),
        (
            &["forward", "-i", path, "web", "-"],
            1,
            "there is no service web",
        ),
    ];
    for (arguments, status, expected) in cases {
        let done = program()
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(status), "{text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}
