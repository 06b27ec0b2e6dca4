//! What an operator meets in the first hour: passwords of the default auth policy, a terminal that
//! is closed, a drill, a full disk.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use figment::{
    Figment,
    providers::{Format, Serialized, Toml},
};
use overkeep::testing::{
    clock::{Clock, Timestamp},
    config::{Config, PasswordConfig, Span},
    controller,
};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::command_line::{isolated, on_host, program};
use crate::harness::{Caller, Program, TestServer, fresh};

/// The finding of doctor about passwords: whether nothing is wrong, and what was found.
fn passwords(server: &TestServer) -> (bool, String) {
    let served = server.admin.get("/overkeep/v1/doctor").expect(200);
    let finding = served
        .data()
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["check"] == "passwords")
        .unwrap()
        .clone();
    (
        finding["healthy"] == true,
        format!("{} {}", finding["detail"], finding["mend"]),
    )
}

/// The policies that need attention because of their passwords.
fn attention(server: &TestServer) -> Json {
    server
        .admin
        .get("/overkeep/v1/attention")
        .expect(200)
        .data()["guessablePasswords"]
        .clone()
}

#[test]
fn guessable_passwords_are_found() {
    let server = TestServer::start();
    let (is_good, told) = passwords(&server);
    assert!(
        !is_good && told.contains("Default") && told.contains("less than 12"),
        "{told}"
    );
    assert_eq!(
        attention(&server),
        json!({ "total": 1, "first": [{ "id": "default", "name": "Default" }] })
    );
    let set = |members: Json| {
        drop(
            server
                .admin
                .patch(
                    "/auth-policies/default",
                    json!({ "primary": { "updb": members } }),
                )
                .expect(200),
        )
    };
    // Both are needed, and no passwords at all are enough.
    for (members, is_good) in [
        (json!({ "minPasswordLength": 12 }), false),
        (json!({ "maxAttempts": 1 }), true),
        (json!({ "minPasswordLength": 11 }), false),
        (json!({ "allowed": false }), true),
    ] {
        set(members);
        assert_eq!(
            (passwords(&server).0, attention(&server)["total"] == 0),
            (is_good, is_good),
            "{}",
            passwords(&server).1
        );
    }
    // Another policy counts as soon as an identity has it.
    let other = crate::explain::auth_policy(
        &server,
        json!({ "primary": { "updb": { "allowed": true } } }),
    );
    assert!(passwords(&server).0);
    server.identity(&fresh("member"), json!({ "authPolicyId": other }));
    assert_eq!(attention(&server)["first"][0]["id"], other.as_str());
    // A person pastes the command into a shell.
    server
        .admin
        .patch(
            &format!("/auth-policies/{other}"),
            json!({ "name": "it's; true" }),
        )
        .expect(200);
    assert!(
        passwords(&server)
            .1
            .contains(r"auth-policy 'it'\\''s; true' --primary"),
        "{}",
        passwords(&server).1
    );
}

#[test]
fn what_mends_passwords_mends_them() {
    let server = TestServer::start();
    let told = passwords(&server).1;
    let line = told
        .split("overkeep ")
        .nth(1)
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .replace('\'', "");
    on_host(&server, &line.split_whitespace().collect::<Vec<_>>()).good();
    assert!(passwords(&server).0, "{}", passwords(&server).1);
}

#[test]
fn first_start_sets_password_rules() {
    let server = TestServer::with(Clock::system(), |config| {
        (
            config.passwords.min_length,
            config.passwords.max_attempts,
            config.passwords.lockout_minutes,
        ) = (12, 10, 1);
    });
    let updb = server
        .admin
        .get("/auth-policies/default")
        .expect(200)
        .data()["primary"]["updb"]
        .clone();
    let rules = (
        &updb["minPasswordLength"],
        &updb["maxAttempts"],
        &updb["lockoutDurationMinutes"],
    );
    assert_eq!(rules, (&json!(12), &json!(10), &json!(1)));
    assert!(passwords(&server).0);
    let id = server.identity(&fresh("short"), json!({}));
    let body = json!({ "method": "updb", "identityId": id, "username": fresh("user"), "password": "elevenchars" });
    server
        .admin
        .post("/authenticators", body)
        .refused(400, "COULD_NOT_VALIDATE", "password");
    // A later start changes nothing.
    let server = server.restarted(|config| config.passwords.min_length = 5);
    assert_eq!(
        server
            .admin
            .get("/auth-policies/default")
            .expect(200)
            .data()["primary"]["updb"],
        updb
    );

    let place = TempDir::new().unwrap();
    let given = place.path().join("given");
    fs::write(&given, "elevenchars\n").unwrap();
    let mut config = Config {
        data: place.path().join("data"),
        listen: "127.0.0.1:0".parse().unwrap(),
        ..Config::default()
    };
    (config.passwords.min_length, config.admin_password_file) = (12, Some(given.clone()));
    let refused = controller::start(&config, Clock::system())
        .err()
        .unwrap()
        .to_string();
    assert!(
        refused.contains("admin-password-file") && refused.contains("12"),
        "{refused}"
    );
    fs::write(&given, "twelve chars\n").unwrap();
    drop(controller::start(&config, Clock::system()).unwrap_or_else(|e| panic!("{e}")));
}

/// How long wrong passwords lock an identity out, in seconds.
fn lockout(server: &TestServer, name: &str, path: &str) -> i64 {
    for _ in 0..2 {
        let wrong = json!({ "username": name, "password": "not the password" });
        server
            .anonymous()
            .post("/authenticate?method=password", wrong)
            .refused(401, "INVALID_AUTH", "");
    }
    let until: Timestamp = server.admin.get(path).expect(200).data()["disabledUntil"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    i64::try_from(until.since(server.clock.now()).as_secs()).unwrap()
}

#[test]
fn lockouts_in_a_row_double() {
    for (longest, wanted) in [(5, [60, 120, 240, 300, 300]), (0, [60, 60, 60, 60, 60])] {
        let server = TestServer::with(Clock::manual(Clock::system().now()), |config| {
            config.passwords = PasswordConfig {
                max_attempts: 2,
                lockout_minutes: 1,
                max_lockout_minutes: longest,
                ..config.passwords.clone()
            };
            config.sessions.timeout = Span::minutes(60 * 24);
        })
        .unverified();
        let name = fresh("guessed");
        let (id, _) = server.user(&name, json!({}));
        let path = format!("/identities/{id}");
        for seconds in wanted {
            assert_eq!(lockout(&server, &name, &path), seconds);
            server
                .clock
                .advance(Duration::from_secs(u64::try_from(seconds).unwrap() + 1));
        }
        // A right password, or an administrator who enables the identity, begins again.
        server.log_in_again(&name);
        assert_eq!(lockout(&server, &name, &path), 60);
        server
            .admin
            .post(&format!("{path}/enable"), Json::Null)
            .expect(200);
        assert_eq!(lockout(&server, &name, &path), 60);
    }
}

#[test]
fn packaged_configuration_asks_for_passwords() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = Command::new("sed")
        .args(["-f", "examples/packaging/controller.sed", "controller.toml"])
        .current_dir(root)
        .output()
        .unwrap();
    let text = String::from_utf8(made.stdout).unwrap();
    let config: Config = Figment::from(Serialized::defaults(Config::default()))
        .merge(Toml::string(&text))
        .extract()
        .unwrap();
    let PasswordConfig {
        min_length,
        max_attempts,
        lockout_minutes,
        max_lockout_minutes,
        ..
    } = config.passwords.clone();
    assert!(
        min_length == 12
            && (1..=20).contains(&max_attempts)
            && lockout_minutes > 0
            && max_lockout_minutes > lockout_minutes,
        "{text}"
    );
    let plain = Config {
        passwords: Config::default().passwords,
        ..config
    };
    assert_eq!(plain, Config::default());
    assert!(
        fs::read_to_string(root.join("examples/packaging/build"))
            .unwrap()
            .contains("sed -f $packaging/controller.sed controller.toml")
    );
}

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
