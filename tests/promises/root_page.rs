//! Behaviour at the root path that is specific to Overkeep: HEAD requests, the page for browsers,
//! plain http on the https port, and reloading the configuration.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use tempfile::TempDir;

use crate::harness::{TestServer, Wire, shared, trusting};

/// The answer to a request on a connection of its own.
fn exchanged(text: &str) -> String {
    exchanged_with(shared(), text)
}

fn exchanged_with(server: &TestServer, text: &str) -> String {
    let mut wire = Wire::to(&server.anonymous());
    wire.send(text.as_bytes()).unwrap();
    wire.read().0
}

#[test]
fn head_is_answered() {
    let server = TestServer::start();
    for path in ["/", "/health", "/ready", "/docs", "/docs/page.css"] {
        let server = &server;
        let ask = |method: &str| {
            exchanged_with(
                server,
                &format!("{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"),
            )
        };
        let (get, head) = (ask("GET"), ask("HEAD"));
        let [(get_head, get_body), (head_head, head_body)] =
            [&get, &head].map(|answer| answer.split_once("\r\n\r\n").unwrap());
        assert!(
            get_head.starts_with("HTTP/1.1 200") && head_head.starts_with("HTTP/1.1 200"),
            "{path}: {head_head}"
        );
        assert!(
            !get_body.is_empty() && head_body.is_empty(),
            "{path}: {head_body}"
        );
        let length = |head: &str| {
            head.lines()
                .find_map(|line| line.strip_prefix("content-length: ").map(str::to_owned))
        };
        assert_eq!(length(get_head), length(head_head), "{path}");
    }
    for path in [
        "/version",
        "/services",
        "/edge/client/v1/version",
        "/edge/management/v1/",
        "/overkeep/v1/history",
    ] {
        let head = exchanged(&format!(
            "HEAD {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
        ));
        assert!(
            head.starts_with("HTTP/1.1 405"),
            "{path} must answer as recorded: {head}"
        );
    }
}

#[test]
fn root_honours_accept() {
    let ask = |accept: &str| {
        let accept = if accept.is_empty() {
            String::new()
        } else {
            format!("accept: {accept}\r\n")
        };
        exchanged(&format!(
            "GET / HTTP/1.1\r\nhost: a\r\n{accept}connection: close\r\n\r\n"
        ))
    };
    for browser in [
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "text/html",
        "application/json;q=0.5, text/html",
    ] {
        let page = ask(browser);
        assert!(
            page.contains("content-type: text/html") && page.contains("href=\"/docs\""),
            "{browser}: {page}"
        );
        assert!(
            page.contains("content-security-policy: default-src 'none'")
                && page.contains("vary: accept"),
            "{browser}: {page}"
        );
    }
    for program in [
        "",
        "*/*",
        "application/json",
        "application/json, text/html;q=0.9",
        "application/json, text/html",
    ] {
        let answer = ask(program);
        assert!(
            answer.contains("content-type: application/json") && answer.contains("apiVersions"),
            "{program}: {answer}"
        );
    }
    let client_root = exchanged(
        "GET /edge/client/v1/ HTTP/1.1\r\nhost: a\r\naccept: text/html,*/*;q=0.8\r\nconnection: close\r\n\r\n",
    );
    assert!(client_root.contains("apiVersions"), "{client_root}");
}

#[test]
fn plain_http_is_pointed_to_https() {
    let server = TestServer::start();
    for asked in [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "POST /edge/client/v1/authenticate HTTP/1.0\r\n\r\n{}",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut socket = TcpStream::connect(server.bound()).unwrap();
        socket.write_all(asked.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 400") && answer.contains("https://"),
            "{asked:?}: {answer:?}"
        );
    }
    // However many bytes follow.
    let mut socket = TcpStream::connect(server.bound()).unwrap();
    drop(socket.write_all(&[b'A'; 100_000]));
    drop(socket.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    drop(socket.read_to_end(&mut answer));
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"),
        "{answer:?}"
    );
    // Bytes that are not an HTTP request reach TLS, which answers with an alert and keeps
    // listening.
    let mut socket = TcpStream::connect(server.bound()).unwrap();
    socket.write_all(b"\x16\x03\x01\x00\x02\xff\xff").unwrap();
    let mut alert = Vec::new();
    drop(socket.read_to_end(&mut alert));
    assert!(!alert.starts_with(b"HTTP"), "{alert:?}");
    server.admin.get("/current-identity").expect(200);
}

/// Whether a condition holds within a minute.
fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        if holds() {
            return true;
        }
        thread::sleep(Duration::from_millis(50));
    }
    false
}

#[test]
fn sighup_reloads_without_ending_anything() {
    let directory = TempDir::new().unwrap();
    let write = |text: &str| fs::write(directory.path().join("settings"), text).unwrap();
    write("[http]\ncors-origins = ['https://before.example.org']\n[passwords]\ncost = 10");
    let mut command = Command::new(env!("CARGO_BIN_EXE_overkeep"));
    command
        .args([
            "run",
            "--config",
            "settings",
            "--data",
            "data",
            "--listen",
            "127.0.0.1:0",
        ])
        .env_clear()
        .current_dir(directory.path());
    let log = fs::File::create(directory.path().join("log")).unwrap();
    let mut process = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let first = lines.next().unwrap();
    let url = first
        .split_whitespace()
        .find(|word| word.starts_with("https://"))
        .unwrap()
        .to_owned();
    lines
        .by_ref()
        .take_while(|line| !line.starts_with("next:"))
        .for_each(drop);
    let logged = |words: &[&str]| {
        let log = fs::read_to_string(directory.path().join("log")).unwrap();
        log.lines()
            .any(|line| words.iter().all(|word| line.contains(word)))
    };
    let hangup = || {
        assert!(
            Command::new("kill")
                .args(["-HUP", &process.id().to_string()])
                .status()
                .unwrap()
                .success()
        )
    };
    let caller = trusting(&url);
    let allowed = |origin: &str| {
        let answer = caller
            .ask("GET", "/version")
            .header("origin", origin)
            .send()
            .expect(200);
        answer
            .headers
            .get("access-control-allow-origin")
            .is_some_and(|value| value == origin)
    };
    assert!(allowed("https://before.example.org") && !allowed("https://after.example.org"));

    hangup();
    assert!(eventually(|| logged(&[
        "the configuration has not changed"
    ])));
    write(
        "[http]\ncors-origins = ['https://after.example.org']\nmax-open-body-bytes = 16384\nworkers = 3\n[log]\nlevel = 'debug'\n[passwords]\ncost = 10",
    );
    hangup();
    assert!(eventually(|| allowed("https://after.example.org")));
    assert!(!allowed("https://before.example.org"));
    assert!(eventually(|| logged(&[
        "http.cors-origins",
        "before.example.org",
        "after.example.org",
        "INFO"
    ])));
    assert!(
        eventually(|| logged(&["log.level", "INFO"]) && logged(&["DEBUG"])),
        "the log level did not change"
    );
    assert!(logged(&["http.workers", "WARN", "needs a restart"]));
    let large = json!({ "username": "x".repeat(20_000), "password": "y" });
    assert_eq!(
        caller.post("/authenticate?method=password", large).status,
        413,
        "the limit did not change"
    );

    write("[http]\ncors-origins = ['not an origin']");
    hangup();
    assert!(eventually(|| logged(&[
        "the configuration is invalid",
        "http.cors-origins",
        "WARN"
    ])));
    fs::remove_file(directory.path().join("settings")).unwrap();
    hangup();
    assert!(eventually(|| logged(&[
        "the configuration is invalid",
        "No such file"
    ])));
    assert!(
        allowed("https://after.example.org"),
        "a rejected configuration changed something"
    );
    assert!(process.try_wait().unwrap().is_none(), "the process ended");
    assert!(
        Command::new("kill")
            .args(["-TERM", &process.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
    assert!(process.wait().unwrap().success());
}
