//! Servers that a command of ours talks to.

use super::*;

/// What a server sends after it has read a request, until it cannot.
type Sends = fn(&mut dyn Write) -> std::io::Result<()>;

/// A server with TLS that answers every request like this. Returns its URL and its certificate,
/// PEM.
fn hostile(sends: Sends) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let pem = certificate.pem();
    let config = Arc::new(
        config
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap(),
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = StreamOwned::new(
                ServerConnection::new(config.clone()).unwrap(),
                stream.unwrap(),
            );
            thread::spawn(move || {
                let mut head = [0; 4096];
                if stream.read(&mut head).is_ok() {
                    sends(&mut stream).ok();
                    stream.conn.send_close_notify();
                    stream.flush().ok();
                    // The client sends the body of a request apart from its head. If it came to a
                    // closed connection, the client could be reset before it reads the answer.
                    std::io::copy(&mut stream.sock, &mut std::io::sink()).ok();
                }
            });
        }
    });
    (url, pem)
}

const AUTHORITIES: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n";

#[test]
fn hostile_servers_forge_no_lines() {
    let home = home();
    let (url, pem) = hostile(|to| {
        let error = "{\"error\":{\"message\":\"no\\u001b]0;x\\u0007\u{9b}31m\u{202e}\\nlogged in\",\"cause\":{\"field\":\"a\u{7f}b\",\"reason\":\"\u{2066}c\"}}}";
        write!(
            to,
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{error}",
            error.len()
        )
    });
    let trusted = home.path().join("ca.pem");
    std::fs::write(&trusted, pem).unwrap();
    let trusted = trusted.to_str().unwrap();
    let given = ["--user", "admin", "--password-file", "password"];
    for (words, is_told) in [
        (vec!["login", &url, "--yes"], false),
        (vec!["login", &url, "--ca", trusted], true),
        (vec!["import", "--from", &url, "--ca", trusted], true),
    ] {
        let words: Vec<&str> = words.into_iter().chain(given).collect();
        let ran = Ran::of(
            words.join(" "),
            program(home.path()).args(&words).output().unwrap(),
        );
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
        assert_plain(&ran.err);
        assert_plain(&ran.out);
        assert_ne!(ran.status, 0);
        assert_eq!(
            ran.err.contains("\\u{1b}]0;x") && ran.err.contains("\\u{202e}"),
            is_told,
            "{}",
            ran.err
        );
    }
    // The same for commands that go there with a login.
    let variables = [
        (
            "OVERKEEP_TOKEN",
            "ovk_0123456789012345678901234567890123456789012",
        ),
        ("OVERKEEP_URL", url.as_str()),
        ("OVERKEEP_CA", trusted),
    ];
    std::fs::write(home.path().join("network.yaml"), "services: []").unwrap();
    for words in [
        &["list", "services"][..],
        &["apply", "network.yaml"],
        &["create", "service", "web"],
        &["export"],
    ] {
        let ran = Ran::of(
            words.join(" "),
            program(home.path())
                .envs(variables)
                .args(words)
                .output()
                .unwrap(),
        );
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
        assert_plain(&ran.err);
        assert!(ran.err.contains("\\u{202e}"), "{}", ran.err);
    }
}

#[test]
fn endless_servers_are_left() {
    let endless: [Sends; 4] = [
        // A head that never ends, a body without end at full speed, a huge announced body, and one
        // in chunks.
        |to| loop {
            to.write_all(b"HTTP/1.1 200 OK\r\n")?;
            (0..10_000).try_for_each(|_| {
                to.write_all(b"x-more: and more and more and more and more\r\n")
            })?;
        },
        |to| {
            to.write_all(AUTHORITIES.as_bytes())?;
            to.write_all(b"\r\n")?;
            loop {
                to.write_all(&[b'A'; 16 << 10])?;
            }
        },
        |to| {
            write!(to, "{AUTHORITIES}content-length: {}\r\n\r\n", u64::MAX / 2)?;
            loop {
                to.write_all(&[b'A'; 16 << 10])?;
            }
        },
        |to| {
            write!(to, "{AUTHORITIES}transfer-encoding: chunked\r\n\r\n")?;
            loop {
                to.write_all(b"1000\r\n")?;
                to.write_all(&[b'A'; 0x1000])?;
                to.write_all(b"\r\n")?;
            }
        },
    ];
    for sends in endless {
        let (home, (url, _)) = (home(), hostile(sends));
        let began = Instant::now();
        let output = program(home.path())
            .args(["login", &url, "--yes", "--password-file", "password"])
            .output()
            .unwrap();
        assert!(!output.status.success());
        assert!(
            began.elapsed() < Duration::from_secs(50),
            "{:?}",
            began.elapsed()
        );
    }
}

/// The servers that send little take as long as a login may take: a minute.
#[test]
fn slow_servers_are_left() {
    let slow: [Sends; 2] = [
        |_| {
            thread::sleep(Duration::from_secs(1000));
            Ok(())
        },
        |to| {
            write!(to, "{AUTHORITIES}\r\n")?;
            loop {
                to.write_all(b"A")?;
                to.flush()?;
                thread::sleep(Duration::from_millis(300));
            }
        },
    ];
    let running: Vec<_> = slow
        .into_iter()
        .map(|sends| {
            thread::spawn(move || {
                let (home, (url, _)) = (home(), hostile(sends));
                let mut command: Command = program(home.path());
                let mut login = command
                    .args(["login", &url, "--yes", "--password-file", "password"])
                    .spawn()
                    .unwrap();
                let until = Instant::now() + Duration::from_secs(180);
                loop {
                    match login.try_wait().unwrap() {
                        Some(status) => break assert!(!status.success()),
                        None if Instant::now() > until => {
                            login.kill().unwrap();
                            panic!("the login does not end");
                        }
                        None => thread::sleep(Duration::from_millis(200)),
                    }
                }
            })
        })
        .collect();
    running.into_iter().for_each(|login| login.join().unwrap());
}
