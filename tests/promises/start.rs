//! Starting and stopping the program: what a person or a service manager sees of `overkeep run`.

use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader, Read},
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt,
    },
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use overkeep::testing::{clock::Clock, config::Config, controller};
use serde_json::{Value, json};
use tempfile::TempDir;
use ureq::{Agent, tls::TlsConfig};

/// A running controller and its output so far.
struct Running {
    process: Child,
    output: Vec<String>,
    url: String,
}

impl Running {
    /// Starts a controller on the file `data` of a directory and waits until it prints its address.
    fn start(directory: &Path, more: &[&str]) -> Self {
        let mut process = overkeep(directory, more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = lines.next().expect("it says where it listens").unwrap();
        let url = first
            .split_whitespace()
            .find(|word| word.starts_with("https://"))
            .expect("a URL")
            .to_owned();
        // The other lines follow at once. The last one that is waited for is the fingerprint.
        let mut output = vec![first];
        while !output.last().unwrap().starts_with("certificate: ") {
            output.push(lines.next().expect("a line with the fingerprint").unwrap());
        }
        Self {
            process,
            output,
            url,
        }
    }

    fn login(&self, password: &str) -> u16 {
        login(&self.url, password)
    }

    /// Stops it with the signal of service managers. Returns the exit status and stderr.
    fn stop(mut self) -> (Option<i32>, String) {
        signal(self.process.id());
        let status = self.process.wait().unwrap().code();
        let mut log = String::new();
        self.process
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut log)
            .unwrap();
        (status, log)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn overkeep(directory: &Path, more: &[&str]) -> Command {
    as_program(Path::new(env!("CARGO_BIN_EXE_overkeep")), directory, more)
}

fn as_program(program: &Path, directory: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(program);
    // As environment variables, which flags override.
    command
        .arg("run")
        .args(more)
        .env_clear()
        .current_dir(directory)
        .envs([
            ("OVERKEEP_DATA", "data"),
            ("OVERKEEP_LISTEN", "127.0.0.1:0"),
        ]);
    command.env("OVERKEEP_PASSWORDS_COST", "10");
    command
}

/// A start that must end by itself.
fn refused(directory: &Path, more: &[&str]) -> Output {
    let command = overkeep(directory, more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    command.wait_with_output().unwrap()
}

fn signal(process: u32) {
    assert!(
        Command::new("kill")
            .args(["-TERM", &process.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

fn agent() -> Agent {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder()
        .disable_verification(true)
        .unversioned_rustls_crypto_provider(provider)
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .proxy(None)
        .build()
        .new_agent()
}

fn login(url: &str, password: &str) -> u16 {
    let body = json!({ "username": "admin", "password": password });
    let asked = agent()
        .post(format!(
            "{url}/edge/management/v1/authenticate?method=password"
        ))
        .send_json(body);
    asked.unwrap().status().as_u16()
}

fn get(url: &str, path: &str) -> (u16, Value) {
    let mut answer = agent().get(format!("{url}{path}")).call().unwrap();
    (
        answer.status().as_u16(),
        answer.body_mut().read_json().unwrap(),
    )
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

/// Asserts that stderr is one line that begins with the program's name and contains all of these
/// words.
fn assert_refused(output: &Output, words: &[&str]) {
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(
        line.starts_with("overkeep: ") && line.lines().count() == 1,
        "{line:?}"
    );
    assert!(
        words.iter().all(|word| line.contains(word)),
        "{line:?} has not all of {words:?}"
    );
    assert!(
        output.stdout.is_empty(),
        "{:?}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn first_start_needs_no_arguments() {
    let directory = TempDir::new().unwrap();
    let (data, secret) = (
        directory.path().join("data"),
        directory.path().join("data.admin-password"),
    );
    let running = Running::start(directory.path(), &[]);
    let output = running.output.join("\n");
    let password = fs::read_to_string(&secret).unwrap().trim_end().to_owned();
    assert!(
        ["admin", "data.admin-password", "next:"]
            .iter()
            .all(|word| output.contains(word)),
        "{output}"
    );
    assert!(
        !output.contains(&password),
        "the password was printed to something other than a terminal"
    );
    assert_eq!((mode(&data), mode(&secret)), (0o600, 0o600));
    assert_eq!(
        get(&running.url, "/health"),
        (200, json!({ "status": "alive" }))
    );
    assert_eq!(
        get(&running.url, "/ready"),
        (200, json!({ "status": "ready" }))
    );
    assert_eq!(
        (running.login(&password), running.login("wrong-password")),
        (200, 401)
    );
    let (status, log) = running.stop();
    assert_eq!(status, Some(0));
    assert!(
        log.lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "{log}"
    );
    assert!(!log.contains(&password));

    fs::remove_file(&secret).unwrap();
    let running = Running::start(directory.path(), &[]);
    assert_eq!(
        running.output.len(),
        2,
        "where it listens, and the fingerprint"
    );
    assert_eq!(running.login(&password), 200);
    assert!(!secret.exists());
}

#[test]
fn unseen_password_is_replaced() {
    let directory = TempDir::new().unwrap();
    let secret = directory.path().join("data.admin-password");
    let mut command = overkeep(directory.path(), &[]);
    command.envs([
        ("OVERKEEP_TLS_CERTIFICATE", "none"),
        ("OVERKEEP_TLS_KEY", "none"),
    ]);
    assert_refused(
        &command.output().unwrap(),
        &["tls.certificate", "No such file"],
    );
    assert!(
        directory.path().join("data").exists() && !secret.exists(),
        "the start failed before the administrator was stored"
    );
    let running = Running::start(directory.path(), &[]);
    assert_eq!(
        running.login(fs::read_to_string(&secret).unwrap().trim_end()),
        200
    );
}

#[test]
fn seen_password_stays() {
    let directory = TempDir::new().unwrap();
    let mut config = Config {
        data: directory.path().join("data"),
        listen: "127.0.0.1:0".parse().unwrap(),
        ..Config::default()
    };
    config.passwords.cost = 10;
    let start = |config: &Config| {
        let running = controller::start(config, Clock::system()).unwrap();
        let generated = running.generated_password().map(str::to_owned);
        (format!("https://{}", running.bound()), generated, running)
    };
    let (_, lost, running) = start(&config);
    // As if the controller had been killed before it showed the password.
    drop(running);
    let (url, shown, running) = start(&config);
    assert_eq!(
        [&lost, &shown].map(|password| login(&url, password.as_ref().unwrap())),
        [401, 200]
    );
    running.password_was_seen().unwrap();
    drop(running);
    let (url, none, running) = start(&config);
    assert_eq!((none, login(&url, &shown.unwrap())), (None, 200));
    drop(running);

    // A password that is given replaces the generated one and is not replaced.
    let given = directory.path().join("given");
    fs::write(&given, "given-by-hand").unwrap();
    config.data = directory.path().join("other");
    drop(start(&config));
    drop(start(&Config {
        admin_password_file: Some(given),
        ..config.clone()
    }));
    let (url, none, _running) = start(&config);
    assert_eq!((none, login(&url, "given-by-hand")), (None, 200));
}

#[test]
fn password_file_is_made_anew() {
    for is_link in [false, true] {
        let directory = TempDir::new().unwrap();
        let (secret, open) = (
            directory.path().join("data.admin-password"),
            directory.path().join("open"),
        );
        fs::write(&open, "of others").unwrap();
        if is_link {
            symlink(&open, &secret).unwrap()
        } else {
            fs::rename(&open, &secret).unwrap()
        }
        fs::set_permissions(&secret, Permissions::from_mode(0o644)).unwrap();
        let running = Running::start(directory.path(), &[]);
        assert!(fs::symlink_metadata(&secret).unwrap().is_file());
        assert_eq!(
            (
                mode(&secret),
                running.login(fs::read_to_string(&secret).unwrap().trim_end())
            ),
            (0o600, 200)
        );
        assert!(!is_link || fs::read_to_string(&open).unwrap() == "of others");
    }
}

#[test]
fn given_password_is_not_printed() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("given"), "given-by-hand\n").unwrap();
    let running = Running::start(directory.path(), &["--admin-password-file", "given"]);
    assert_eq!(running.login("given-by-hand"), 200);
    assert!(!directory.path().join("data.admin-password").exists());
}

#[test]
fn terminals_show_the_password() {
    let directory = TempDir::new().unwrap();
    let python = Command::new("python3").args(["-c", "import pty"]).status();
    if !python.is_ok_and(|status| status.success()) {
        return println!("skipped: no python3 to make a terminal");
    }
    // The shell may ignore SIGHUP when a terminal goes; the controller on this terminal must not.
    let terminal = "import pty, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    let mut process = Command::new("python3")
        .args([
            "-c",
            terminal,
            env!("CARGO_BIN_EXE_overkeep"),
            "run",
            "--data",
            "data",
            "--listen",
            "127.0.0.1:0",
        ])
        .current_dir(directory.path())
        // The log goes to the same terminal, so that its lines may mix with the output.
        .envs([
            ("OVERKEEP_LOG_LEVEL", "off"),
            ("OVERKEEP_PASSWORDS_COST", "10"),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut output = String::new();
    let shown = lines.into_iter().find_map(|line| {
        output += &(line.clone() + "\n");
        line.strip_prefix("password: ")
            .map(|rest| rest.split_whitespace().next().unwrap().to_owned())
    });
    let url = output
        .split_whitespace()
        .find(|word| word.starts_with("https://"));
    let status = login(url.expect("a URL"), &shown.expect("a password"));
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(status, 200);
    assert!(!directory.path().join("data.admin-password").exists());
}

#[test]
fn failed_start_is_one_line() {
    let directory = TempDir::new().unwrap();
    let running = Running::start(directory.path(), &[]);
    let port = running.url.trim_start_matches("https://").to_owned();

    assert_refused(
        &refused(directory.path(), &[]),
        &["data", "in use by another process"],
    );
    assert_refused(
        &refused(directory.path(), &["--data", "other", "--listen", &port]),
        &["listen", &port, "in use"],
    );
    assert!(
        !directory.path().join("other").exists(),
        "a failed start left a file behind"
    );

    assert_refused(
        &refused(directory.path(), &["--data", "missing/data"]),
        &["missing", "No such file or directory"],
    );
    assert_refused(
        &refused(directory.path(), &["--data", "data/data"]),
        &["data/data", "Not a directory"],
    );
    assert_refused(&refused(directory.path(), &["--data", "."]), &["directory"]);
    fs::write(directory.path().join("letter"), "Dear reader").unwrap();
    assert_refused(
        &refused(directory.path(), &["--data", "letter"]),
        &["letter", "not a data file"],
    );
    assert_eq!(
        fs::read_to_string(directory.path().join("letter")).unwrap(),
        "Dear reader"
    );

    assert_refused(
        &refused(
            directory.path(),
            &["--data", "other", "--admin-password-file", "none"],
        ),
        &["admin-password-file", "none"],
    );
    fs::write(
        directory.path().join("settings"),
        "[sessions]\ntimout = '5m'",
    )
    .unwrap();
    assert_refused(
        &refused(directory.path(), &["--config", "settings"]),
        &["sessions.timout", "settings", "no such key"],
    );
    fs::write(
        directory.path().join("settings"),
        "[sessions]\ntimeout = '5s'",
    )
    .unwrap();
    assert_refused(
        &refused(directory.path(), &["--config", "settings"]),
        &["sessions.timeout", "5s", "1m to 365d"],
    );
}

#[test]
fn unwritable_directory_is_named() {
    let directory = TempDir::new().unwrap();
    let locked = directory.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, Permissions::from_mode(0o555)).unwrap();
    let mut command = overkeep(directory.path(), &["--data", "locked/data"]);
    if fs::write(locked.join("probe"), "").is_ok() {
        // This user may write everywhere. Another user runs a copy of the program, whose directory
        // it may not be able to enter.
        let anonymous = 65_534;
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        fs::copy(
            env!("CARGO_BIN_EXE_overkeep"),
            directory.path().join("overkeep"),
        )
        .unwrap();
        command = as_program(
            &directory.path().join("overkeep"),
            directory.path(),
            &["--data", "locked/data"],
        );
        command.uid(anonymous);
    }
    assert_refused(&command.output().unwrap(), &["locked", "Permission denied"]);
}

#[test]
fn data_file_permissions_are_tightened() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    drop(Running::start(directory.path(), &[]));
    fs::set_permissions(&data, Permissions::from_mode(0o644)).unwrap();
    let _running = Running::start(directory.path(), &[]);
    assert_eq!(mode(&data), 0o600);
}

#[test]
fn removed_data_file_is_noticed() {
    let directory = TempDir::new().unwrap();
    let (data, away) = (directory.path().join("data"), directory.path().join("away"));
    fs::write(
        directory.path().join("settings"),
        "[sessions]\nsweep-interval = '1s'",
    )
    .unwrap();
    let running = Running::start(directory.path(), &["--config", "settings"]);
    let ready = || get(&running.url, "/ready").0;
    assert_eq!(ready(), 200);
    fs::rename(&data, &away).unwrap();
    assert_eq!(ready(), 503);
    thread::sleep(Duration::from_secs(3));
    fs::write(&data, "another").unwrap();
    assert_eq!(ready(), 503);
    fs::rename(&away, &data).unwrap();
    assert_eq!(ready(), 200);
    thread::sleep(Duration::from_secs(3));
    let (_, log) = running.stop();
    let output = [
        "the data file was moved, replaced or deleted",
        "the data file is at its path again",
    ];
    assert_eq!(
        output.map(|line| log.matches(line).count()),
        [1, 1],
        "{log}"
    );
}

#[test]
fn unwritable_log_stops_nothing() {
    let directory = TempDir::new().unwrap();
    let mut command = overkeep(directory.path(), &[]);
    command.env("OVERKEEP_LOG_LEVEL", "debug").stderr(
        fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap(),
    );
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    assert!(
        lines
            .next()
            .is_some_and(|first| first.unwrap().contains("https://"))
    );
    lines.for_each(|line| {
        if line.unwrap().starts_with("next:") {
            signal(process.id());
        }
    });
    assert_eq!(process.wait().unwrap().code(), Some(0));
}

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

#[test]
fn first_start_names_the_user() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("given"), "given-by-hand").unwrap();
    let running = Running::start(directory.path(), &["--admin-password-file", "given"]);
    let [_, user, password, next, _] = running.output.as_slice() else {
        panic!("{:?}", running.output)
    };
    assert_eq!(user, "administrator: admin");
    assert!(
        password.contains("given") && !password.contains("given-by-hand"),
        "{password}"
    );
    assert!(
        next.starts_with("next: open https://")
            && next.contains("overkeep create identity alice --enroll ott --data "),
        "{next}"
    );
    assert!(!directory.path().join("data.admin-password").exists());
    assert_eq!(running.login("given-by-hand"), 200);
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
fn left_password_file_is_mentioned() {
    let directory = TempDir::new().unwrap();
    let secret = directory.path().join("data.admin-password");
    Running::start(directory.path(), &[]).stop();
    let (_, log) = Running::start(directory.path(), &[]).stop();
    let output = log
        .lines()
        .find(|line| line.contains("data.admin-password"))
        .unwrap_or_else(|| panic!("{log}"));
    assert!(
        output.contains("WARN") && output.contains("delete the file"),
        "{output}"
    );

    let run = |line: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_overkeep"));
        let done = command
            .args(line.split(' '))
            .args(["--data", "data"])
            .env_clear()
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    run("snapshot copy");
    run("restore --verify-only copy");
    assert!(
        secret.exists(),
        "restore deleted the password file before it replaced anything"
    );
    let output = run("restore copy");
    assert!(output.contains("removed data.admin-password"), "{output}");
    assert!(!secret.exists());
    assert!(
        !run("restore copy").contains("admin-password"),
        "there is no password file any more"
    );
    let (_, log) = Running::start(directory.path(), &[]).stop();
    assert!(!log.contains("admin-password"), "{log}");

    // The file named in the configuration is mentioned as well.
    fs::write(directory.path().join("given"), "given-by-hand").unwrap();
    let (_, log) = Running::start(directory.path(), &["--admin-password-file", "given"]).stop();
    assert!(log.contains("only a first start reads it"), "{log}");
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
        ("info,overkeep::store=debug", false),
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
