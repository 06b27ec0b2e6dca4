//! What a running program logs, and how it ends.

use super::*;

#[test]
fn usage_and_help_exit_statuses() {
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_overkeep"))
            .args(arguments)
            .output()
            .unwrap()
    };
    let help = run(&["run", "--help"]);
    let text = String::from_utf8(help.stdout).unwrap();
    assert_eq!(help.status.code(), Some(0));
    for flag in [
        "--config",
        "--data",
        "--listen",
        "--advertise",
        "--admin-password-file",
        "OVERKEEP_",
    ] {
        assert!(text.contains(flag), "{flag} is missing in {text}");
    }
    assert_eq!(
        run(&["run", "--lsten", "127.0.0.1:0"]).status.code(),
        Some(2)
    );
}

#[test]
fn stop_finishes_running_requests() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("given"), "given-by-hand").unwrap();
    fs::write(directory.path().join("slow"), "[passwords]\ncost = 16").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_overkeep"));
    let arguments = [
        "run",
        "--config",
        "slow",
        "--data",
        "data",
        "--listen",
        "127.0.0.1:0",
        "--admin-password-file",
        "given",
    ];
    let mut process = command
        .args(arguments)
        .env_clear()
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let first = BufReader::new(process.stdout.take().unwrap())
        .lines()
        .next()
        .unwrap()
        .unwrap();
    let url = first
        .split_whitespace()
        .find(|word| word.starts_with("https://"))
        .unwrap()
        .to_owned();
    let start = Instant::now();
    login(&url, "given-by-hand");
    let one = start.elapsed();

    // A log-in takes that long: after a quarter of it, it is running.
    let login_thread = thread::spawn(move || login(&url, "given-by-hand"));
    thread::sleep((one / 4).max(Duration::from_millis(50)));
    signal(process.id());
    assert_eq!(login_thread.join().unwrap(), 200);
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

/// The first certificate that a controller sends in a handshake.
fn first_certificate(url: &str) -> Vec<u8> {
    let address = url.strip_prefix("https://").unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let mut client = rustls::ClientConnection::new(
        Arc::new(crate::harness::tls::trusting().with_no_client_auth()),
        name,
    )
    .unwrap();
    client
        .complete_io(&mut std::net::TcpStream::connect(address).unwrap())
        .unwrap();
    client.peer_certificates().unwrap()[0].to_vec()
}

/// The line is compared with the certificate that a client gets in its handshake, in the form that
/// `openssl x509 -fingerprint` prints.
#[test]
fn fingerprint_is_that_of_browsers() {
    let directory = TempDir::new().unwrap();
    for turn in ["first", "second"] {
        let running = Running::start(directory.path(), &[]);
        let served = first_certificate(&running.url);
        let digest = ring::digest::digest(&ring::digest::SHA256, &served);
        let wanted = digest
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect::<Vec<_>>()
            .join(":");
        let line = running.output.last().unwrap();
        assert!(
            line.starts_with(&format!(
                "certificate: SHA-256 {wanted}; browsers warn of it"
            )),
            "{turn} start: {line}"
        );
    }
}

#[test]
fn anonymous_input_logs_no_alarm() {
    let inputs: [&[u8]; 9] = [
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nfoo bar\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\nhost: a\r\n\r\n",
        b"POST /edge/client/v1/authenticate?method=password HTTP/1.1\r\nhost: a\r\ncontent-length: -5\r\n\r\n",
        b"POST /version HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\nzz\r\n",
        b"POST /edge/client/v1/authenticate?method=password HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /version HTTP/1.1\r\nhost: a\r\n\r\nGARBAGE\r\n\r\n",
    ];
    for (level, shows) in [
        ("info", false),
        ("info,overkeep_store=debug", false),
        ("debug", true),
        ("info,actix_http=warn", true),
    ] {
        let directory = TempDir::new().unwrap();
        let settings = format!("[log]\nlevel = '{level}'");
        fs::write(directory.path().join("settings"), settings).unwrap();
        let running = Running::start(directory.path(), &["--config", "settings"]);
        let caller = crate::harness::trusting(&running.url);
        for bytes in inputs {
            let mut wire = crate::harness::Wire::to(&caller);
            wire.socket()
                .set_read_timeout(Some(Duration::from_secs(2)))
                .unwrap();
            wire.send(bytes).unwrap();
            assert!(wire.read().0.starts_with("HTTP/1.1 "));
        }
        let (status, log) = running.stop();
        assert_eq!(status, Some(0));
        let alarms: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("\"ERROR\"") || line.contains("\"WARN\""))
            .collect();
        let of_peers = alarms
            .iter()
            .filter(|line| !line.contains("the limit of open files"))
            .count();
        assert_eq!(of_peers > 0, shows, "{level}: {alarms:?}");
    }
}

#[test]
fn host_commands_are_logged() {
    for level in ["info", "debug"] {
        let directory = TempDir::new().unwrap();
        fs::write(
            directory.path().join("settings"),
            format!("[log]\nlevel = '{level}'"),
        )
        .unwrap();
        let running = Running::start(directory.path(), &["--config", "settings"]);
        for line in [
            "admin list",
            "pki status",
            "check",
            "history verify",
            "snapshot copy",
            "pki renew-key",
            "admin unlock admin",
        ] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_overkeep"));
            let done = command
                .args(line.split(' '))
                .args(["--data", "data"])
                .env_clear()
                .current_dir(directory.path())
                .output()
                .unwrap();
            assert!(done.status.success(), "{line}: {done:?}");
        }
        let (_, log) = running.stop();
        let asked = log.lines().filter(|line| line.contains("admin socket"));
        let logged_commands: Vec<Value> = asked
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let logged_commands: Vec<(&str, &str)> = logged_commands
            .iter()
            .map(|line| {
                (
                    line["level"].as_str().unwrap(),
                    line["command"].as_str().unwrap(),
                )
            })
            .collect();
        let changes = [
            ("INFO", "renew the server's key"),
            ("INFO", "unlock \"admin\""),
        ];
        let is_read =
            |(_, command): &(&str, &str)| !changes.iter().any(|change| change.1 == *command);
        assert_eq!(
            logged_commands
                .iter()
                .filter(|line| !is_read(line))
                .copied()
                .collect::<Vec<_>>(),
            changes,
            "{level}"
        );
        let reads: Vec<_> = logged_commands
            .iter()
            .filter(|line| is_read(line))
            .map(|line| line.0)
            .collect();
        assert_eq!(
            reads,
            if level == "debug" {
                vec!["DEBUG"; 5]
            } else {
                Vec::new()
            },
            "{logged_commands:?}"
        );
    }
}
