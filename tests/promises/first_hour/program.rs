//! What else goes wrong on the first day.

use super::*;

/// Starts a controller on a terminal of its own, which hangs up when this program closes its end.
/// Prints the process and the first line.
const TERMINAL: &str = r#"
import os, pty, signal, sys, time
child, end = pty.fork()
if child == 0:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.execv(sys.argv[2], sys.argv[2:])
said = b""
while b"password: " not in said or not said.endswith(b"\n"):
    said += os.read(end, 4096)
print(child, flush=True)
sys.stdin.readline()
if sys.argv[1] == "hup":
    os.kill(child, signal.SIGHUP)
    sys.stdin.readline()
os.close(end)
for _ in range(200):
    if os.waitpid(child, os.WNOHANG) != (0, 0):
        print("ended", flush=True)
        sys.exit()
    time.sleep(0.1)
os.kill(child, signal.SIGKILL)
print("goes on", flush=True)
"#;

/// Whether a controller ends when its terminal hangs up. With `signal`, it gets a SIGHUP before,
/// while the terminal is there.
fn ends_with_terminal(signal: bool) -> bool {
    let place = TempDir::new().unwrap();
    let mut command = program(place.path());
    command.args(["run", "--data", "data", "--listen", "127.0.0.1:0"]);
    let mut python = Command::new("python3");
    python
        .args(["-c", TERMINAL, if signal { "hup" } else { "" }])
        .arg(command.get_program())
        .args(command.get_args());
    let mut terminal = isolated(python, place.path())
        .envs([
            ("OVERKEEP_PASSWORDS_COST", "10"),
            ("OVERKEEP_ROUTER_ENABLED", "false"),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(terminal.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let process = lines.next().unwrap();
    let mut keys = terminal.stdin.take().unwrap();
    let mut press = || std::io::Write::write_all(&mut keys, b"\n").unwrap();
    press();
    if signal {
        std::thread::sleep(Duration::from_secs(2));
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        assert!(
            !status.contains("State:\tZ"),
            "a signal alone must not end it"
        );
        press();
    }
    let said = lines.next().unwrap();
    terminal.wait().unwrap();
    said == "ended"
}

#[test]
fn controller_ends_with_its_terminal() {
    let python = Command::new("python3").args(["-c", "import pty"]).status();
    if !python.is_ok_and(|status| status.success()) {
        return println!("skipped: no python3 to make a terminal");
    }
    assert!(ends_with_terminal(false));
    assert!(ends_with_terminal(true));
}

#[test]
fn drills_ask_the_controller() {
    let snapshots = TempDir::new().unwrap();
    let server = TestServer::with(Clock::system(), |config| {
        config.snapshots.directory = Some(snapshots.path().into())
    });
    server.service(&fresh("drilled"), json!({}));
    let begun = Instant::now();
    while fs::read_dir(snapshots.path()).unwrap().count() == 0
        || server
            .admin
            .get("/overkeep/v1/snapshots")
            .expect(200)
            .data()[0]
            .is_null()
    {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "no snapshot was made"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    let known = server
        .admin
        .get("/overkeep/v1/snapshots")
        .expect(200)
        .data()[0]
        .clone();
    assert!(Path::new(known["directory"].as_str().unwrap()).is_absolute());
    let told = on_host(&server, &["drill"]).good();
    assert!(
        told.contains(known["name"].as_str().unwrap()) && told.contains("log-in: done"),
        "{told}"
    );
    // A controller that knows none, and none at all.
    let without = TestServer::start();
    on_host(&without, &["drill"]).bad(1, &["has no snapshot"]);
    let place = TempDir::new().unwrap();
    let output = program(place.path())
        .args(["drill", "--data", "nothing"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1)
            && said.contains("snapshots.directory is not set")
            && said.contains("no controller answers"),
        "{said}"
    );
}

#[test]
fn full_disk_leaves_the_socket() {
    let place = TempDir::new().unwrap();
    let mut limited = Program::limited(place.path(), 3 << 20);
    let admin = limited.admin();
    let config_type = admin
        .post("/config-types", json!({ "name": "large" }))
        .expect(201)
        .id();
    let config = |bytes: usize| json!({ "name": fresh("config"), "configTypeId": config_type, "data": { "text": "x".repeat(bytes) } });
    let begun = Instant::now();
    for bytes in [300_000, 30_000, 3000] {
        while admin.post("/configs", config(bytes)).status == 201 {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the limit has no effect"
            );
        }
    }
    let on_socket = |words: &[&str]| {
        let output = program(place.path())
            .args(words)
            .args(["--data", "data"])
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap(),
        )
    };
    let looks = || {
        for words in [
            &["list", "config-types", "-o", "name"][..],
            &["show", "config-type", "large"],
            &["admin", "list"],
            &["list", "identities"],
        ] {
            let (status, said) = on_socket(words);
            assert_eq!(status, Some(0), "{words:?}: {said}");
        }
    };
    // A log-in stores a session, which does not fit.
    let anonymous = Caller {
        token: None,
        ..admin.clone()
    };
    let log_in = json!({ "username": "admin", "password": "given by a test" });
    let log_in = || anonymous.post("/authenticate?method=password", log_in.clone());
    let mut last = log_in();
    while last.status == 200 {
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "there is room for every session"
        );
        last = log_in();
    }
    last.refused(503, "STORAGE_UNAVAILABLE", "");
    looks();
    limited.kill();
    let limited = Program::limited(place.path(), 3 << 20);
    looks();
    drop(limited);
}
