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
fn networks_are_found_by_the_address_of_a_controller() {
    let server = TestServer::start();
    let directory = tempfile::tempdir().unwrap();
    let root = server
        .anonymous()
        .get("/.well-known/est/cacerts")
        .expect(200);
    let root = crate::harness::listed(&root.text)
        .iter()
        .map(|der| pki::Certificate::from_der(der).unwrap().pem())
        .collect::<String>();
    std::fs::write(directory.path().join("roots.pem"), root).unwrap();
    std::fs::write(directory.path().join("none.pem"), "").unwrap();
    let url = format!("https://{}", server.bound());
    let enroll = |roots: &str| {
        let done = program()
            .args(["enroll", "--url", &url, "-o", "network.json"])
            .env("SSL_CERT_FILE", roots)
            .env_remove("SSL_CERT_DIR")
            .current_dir(directory.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        (done.status.code(), text)
    };
    // Whoever is not proven by the authorities of this machine is told nothing.
    let (status, text) = enroll("none.pem");
    assert_eq!(status, Some(1), "{text}");
    assert!(!directory.path().join("network.json").exists());
    let (status, text) = enroll("roots.pem");
    assert_eq!(status, Some(0), "{text}");
    let written = std::fs::read_to_string(directory.path().join("network.json")).unwrap();
    let written: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert!(
        written["id"]["ca"]
            .as_str()
            .unwrap()
            .contains("BEGIN CERTIFICATE")
    );
    assert!(written["id"]["key"].is_null());
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

/// A directory with the identities of a network, and the host's file outside of it.
struct Directory {
    directory: tempfile::TempDir,
}

impl Directory {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["identities", "run"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// A program that makes its socket here.
    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env_remove("RUNTIME_DIRECTORY")
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn status(&self) -> (Option<i32>, serde_json::Value) {
        let done = self.program(&["status", "-o", "json"]).output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        (done.status.code(), serde_json::from_str(&text).unwrap())
    }
}

/// Waits until something is so.
fn until(mut is_so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(std::time::Instant::now() < end, "it did not happen");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn signal(child: &Running, name: &str) {
    let id = child.0.id().to_string();
    let killed = Command::new("kill").args([name, &id]).status();
    assert!(killed.unwrap().success());
}

#[test]
fn identities_come_and_go_with_a_signal() {
    let network = Network::new(true);
    let filter = format!("name=\"{}\"", network.service);
    let admin = &network.server.admin;
    let service = admin.list("/services", &filter, "").expect(200).each("id")[0].to_owned();
    let types = admin.list("/config-types", "name=\"host.v1\"", "");
    let kind = types.expect(200).each("id")[0].to_owned();
    let data = json!({ "protocol": "tcp", "address": "127.0.0.1", "port": 1 });
    let config = json!({ "name": fresh("config"), "configTypeId": kind, "data": data });
    let config = admin.post("/configs", config).expect(201).id();
    let body = json!({ "configs": [config] });
    admin
        .patch(&format!("/services/{service}"), body)
        .expect(200);
    let is_hosted = || {
        let filter = format!("service=\"{service}\"");
        admin.list("/terminators", &filter, "").expect(200).total() > 0
    };
    let place = Directory::new();
    // It may host nothing.
    written(&network.dialer, &place.path("identities/dialer.json"));
    let hosting = place
        .program(&["host", "-i", "identities", "--poll", "1"])
        .spawn();
    let hosting = Running(hosting.unwrap());
    until(|| {
        place.status().1[0]["sessions"]
            .as_array()
            .is_some_and(|all| all.len() == 1)
    });
    assert!(!is_hosted());
    let path = place.path("identities/host.json");
    written(&network.host, &path);
    signal(&hosting, "-HUP");
    until(is_hosted);
    let hosted = || place.status().1[0]["sessions"][1]["services"][0]["service"].clone();
    until(|| hosted() == network.service.as_str());
    std::fs::remove_file(path).unwrap();
    signal(&hosting, "-HUP");
    until(|| !is_hosted());
    // The API session of the other one ends with the program.
    let filter = format!("identity=\"{}\"", network.dialer_id);
    let sessions = || admin.list("/api-sessions", &filter, "").expect(200).total();
    assert_eq!(sessions(), 1);
    signal(&hosting, "-TERM");
    until(|| sessions() == 0);
}

#[test]
fn status_tells_what_runs() {
    let network = Network::new(true);
    let place = Directory::new();
    written(&network.dialer, &place.path("dialer.json"));
    let (status, none) = place.status();
    assert_eq!((status, none), (Some(3), json!([])));
    let arguments = [
        "forward",
        "-i",
        "dialer.json",
        &network.service,
        "127.0.0.1:0",
    ];
    let _forwarding = Running(place.program(&arguments).spawn().unwrap());
    until(|| place.status().1[0]["sessions"][0]["services"][0]["role"] == "forwarded");
    let (status, told) = place.status();
    assert_eq!((status, &told[0]["command"]), (Some(0), &json!("forward")));
    let session = &told[0]["sessions"][0];
    assert!(
        session["controller"]
            .as_str()
            .unwrap()
            .starts_with("https://"),
        "{told:#}"
    );
    assert!(session["certificateEnd"].as_i64().unwrap() > 0);
    assert_eq!(session["services"][0]["service"], network.service.as_str());
    assert_eq!(session["services"][0]["connections"], 0);
    let done = place.program(&["status"]).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        text.contains(&format!("forwards {} at 127.0.0.1:", network.service)),
        "{text}"
    );
    // Nobody else may ask.
    use std::os::unix::fs::PermissionsExt;
    let directory = place.path("run/overkeep");
    assert_eq!(
        directory.metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[test]
fn the_test_of_a_service_names_the_step_that_fails() {
    let network = Network::new(true);
    let place = Directory::new();
    written(&network.dialer, &place.path("dialer.json"));
    let test = |file: &str, service: &str| {
        let mut command = place.program(&["test", "-o", "json", "-i", file, service]);
        let done = command.stderr(Stdio::piped()).output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let findings: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        let last = findings.last().unwrap().clone();
        let is_good = findings.iter().all(|one| one["healthy"] == true);
        assert_eq!(
            done.status.code(),
            Some(if is_good { 0 } else { 3 }),
            "{text}"
        );
        let is_mended = |one: &serde_json::Value| !one["mend"].as_str().unwrap().is_empty();
        assert!(
            findings
                .iter()
                .all(|one| is_mended(one) != (one["healthy"] == true)),
            "{text}"
        );
        (is_good, last)
    };
    let (is_good, last) = test("dialer.json", "no such service");
    assert!(
        !is_good && last["check"] == "service no such service",
        "{last:#}"
    );
    // Nobody hosts it.
    let (is_good, last) = test("dialer.json", &network.service);
    assert!(
        !is_good && last["check"].as_str().unwrap().starts_with("edge router"),
        "{last:#}"
    );
    assert!(
        last["detail"]
            .as_str()
            .unwrap()
            .contains("has no terminators"),
        "{last:#}"
    );
    run(async {
        let (session, service) = network.session(&network.host).await;
        let target = super::traffic::echo().await;
        super::lead(session, &service, target.parse().unwrap());
    });
    until(|| test("dialer.json", &network.service).0);
    let (_, last) = test("dialer.json", &network.service);
    let detail = last["detail"].as_str().unwrap();
    assert!(
        detail.contains("the server accepted") && detail.contains("Mbit/s"),
        "{detail}"
    );
    // Nothing listens at the address of the controller.
    let text = std::fs::read_to_string(place.path("dialer.json")).unwrap();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    document["ztAPI"] = "https://127.0.0.1:1".into();
    std::fs::write(place.path("lost.json"), document.to_string()).unwrap();
    let (is_good, last) = test("lost.json", &network.service);
    assert!(
        !is_good && last["check"].as_str().unwrap().starts_with("controller"),
        "{last:#}"
    );
}
