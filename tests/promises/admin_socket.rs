//! The owner of the host regains access, with the controller running or stopped.

use std::{os::unix::fs::PermissionsExt, path::Path, sync::Arc};

use overkeep::testing::{
    admin_socket::{Command, Outcome, socket},
    clock::Clock,
    config::Config,
    controller,
    store::Progress,
};
use tempfile::TempDir;

fn configuration(directory: &TempDir) -> Config {
    let mut config = Config {
        data: directory.path().join("data"),
        ..Config::default()
    };
    config.listen = "127.0.0.1:0".parse().unwrap();
    config.passwords.cost = 10;
    config
}

/// Runs a command that finds no problem.
pub fn ask(path: &Path, command: &Command) -> Option<Result<Vec<String>, String>> {
    let told = socket::ask(path, command, &mut |_, _| ())?;
    Some(told.map(|outcome| match outcome {
        Outcome::Done(lines) => lines,
        Outcome::Problems(lines) => panic!("{lines:?}"),
    }))
}

/// The lines of a command that may find problems.
pub fn asked(path: &Path, command: &Command) -> Vec<String> {
    let (Outcome::Done(lines) | Outcome::Problems(lines)) =
        socket::ask(path, command, &mut |_, _| ()).unwrap().unwrap();
    lines
}

fn reset(password: &str) -> Command {
    Command::ResetPassword {
        username: "admin".into(),
        password: password.into(),
        allow_passwords: false,
    }
}

#[test]
fn lost_password_is_replaced() {
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    let path = socket::beside(&config.data);
    assert!(
        ask(&path, &Command::ListAdministrators).is_none(),
        "nobody listens yet"
    );

    let running = controller::start(&config, Clock::system()).unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let listed = ask(&path, &Command::ListAdministrators).unwrap().unwrap();
    assert!(
        matches!(listed.as_slice(), [one] if one.contains("user name admin") && one.contains("enabled")),
        "{listed:?}"
    );
    let told = ask(&path, &reset("another password")).unwrap().unwrap();
    assert!(
        told.iter().all(|line| !line.contains("another password")),
        "{told:?}"
    );
    let unknown = Command::Unlock {
        username: "nobody".into(),
    };
    assert!(
        ask(&path, &unknown)
            .unwrap()
            .unwrap_err()
            .contains("username")
    );
    running.stop();
    assert!(!path.exists() && ask(&path, &Command::ListAdministrators).is_none());

    let command = reset("a third password");
    let host = controller::host(&config, &command).unwrap();
    assert!(host.act(command, &Arc::new(Progress::default())).is_ok());
    host.store.close();
    let again = controller::start(&config, Clock::system()).unwrap();
    assert!(again.generated_password().is_none());
    let certificates = ask(&path, &Command::ListCertificates).unwrap().unwrap();
    assert_eq!(
        certificates
            .iter()
            .map(|line| line.split(':').next().unwrap())
            .collect::<Vec<_>>(),
        ["root", "intermediate", "server"]
    );
}

#[test]
fn owner_set_password_obeys_auth_policy() {
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    let running = controller::start(&config, Clock::system()).unwrap();
    let path = socket::beside(&config.data);
    let admin = crate::harness::trusting(&format!("https://{}", running.bound()))
        .log_in("admin", running.generated_password().unwrap());
    let rules = serde_json::json!({ "minPasswordLength": 12, "requireMixedCase": true, "requireNumberChar": true, "requireSpecialChar": true });
    admin
        .patch(
            "/auth-policies/default",
            serde_json::json!({ "primary": { "updb": rules } }),
        )
        .expect(200);
    let refused = ask(&path, &reset("all of it lower case 1"))
        .unwrap()
        .unwrap_err();
    assert!(
        refused.contains("upper case") && !refused.contains("all of it"),
        "{refused}"
    );
    admin.get("/current-api-session").expect(200);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_overkeep"));
    let said = command
        .args(["admin", "reset-password", "admin"])
        .env("OVERKEEP_DATA", &config.data)
        .output()
        .unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let made = said
        .lines()
        .find_map(|line| line.strip_prefix("password: "))
        .expect("one that is made up is allowed");
    admin.log_in("admin", made);
}

#[test]
fn owner_always_gets_in() {
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    let running = controller::start(&config, Clock::system()).unwrap();
    let agent = crate::harness::trusting(&format!("https://{}", running.bound()));
    let made_up = running.generated_password().unwrap();
    let admin = agent.log_in("admin", made_up);
    let me = admin.get("/current-identity").expect(200).id();
    admin
        .patch(
            "/auth-policies/default",
            serde_json::json!({ "primary": { "updb": { "allowed": false } } }),
        )
        .expect(200);
    let said = |line: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_overkeep"));
        let output = command
            .args(line.split(' '))
            .env_clear()
            .env("OVERKEEP_DATA", &config.data)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap(),
        )
    };
    let (status, refused) = said("admin reset-password admin");
    assert!(
        status == Some(1)
            && refused.contains("does not allow passwords; with --allow-passwords it will"),
        "{refused}"
    );
    admin.get("/current-api-session").expect(200);

    admin
        .post(
            &format!("/identities/{me}/disable"),
            serde_json::json!({ "durationMinutes": 0 }),
        )
        .expect(200);
    let (status, done) = said("admin reset-password admin --allow-passwords");
    assert_eq!(status, Some(0), "{done}");
    assert!(
        done.contains("Default Admin was disabled, and is enabled now")
            && done.contains("allows passwords now"),
        "{done}"
    );
    let admin = agent.log_in(
        "admin",
        done.lines()
            .find_map(|line| line.strip_prefix("password: "))
            .unwrap(),
    );
    let rows = admin
        .list(
            "/overkeep/v1/history",
            "kind = \"authPolicy\" and by.who = \"local\"",
            "",
        )
        .expect(200);
    assert_eq!(
        rows.data()[0]["after"]["primary"]["updb"]["allowed"],
        true,
        "{}",
        rows.text
    );

    let (_, done) = said("admin reset-password admin --allow-passwords");
    assert!(
        !done.contains("disabled") && !done.contains("allows passwords"),
        "changes that were not needed are reported: {done}"
    );
}

#[test]
fn unreadable_file_keeps_its_given_name() {
    let directory = TempDir::new().unwrap();
    let lines = [
        (
            "admin reset-password admin --password-file none",
            "overkeep: --password-file: none: No such file",
        ),
        ("passphrase set none", "overkeep: FILE: none: No such file"),
        (
            "passphrase remove --passphrase-file none",
            "overkeep: passphrase-file: none: No such file",
        ),
    ];
    for (line, says) in lines {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_overkeep"));
        let output = command
            .args(line.split(' '))
            .env_clear()
            .current_dir(&directory)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(1) && said.starts_with(says),
            "{said}"
        );
    }
}

#[test]
fn printed_commands_show_no_password() {
    assert!(!format!("{:?}", reset("very secret")).contains("very secret"));
}

#[test]
fn invalid_command_is_refused() {
    use std::io::{Read, Write};
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    let _running = controller::start(&config, Clock::system()).unwrap();
    let path = socket::beside(&config.data);
    for bytes in [
        &b"\n"[..],
        b"{}\n",
        b"{\"command\":\"format\"}\n",
        b"\xff\xfe\n",
        &[b'x'; 70_000],
    ] {
        let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
        // The other side may close before everything is sent.
        drop(stream.write_all(bytes));
        drop(stream.shutdown(std::net::Shutdown::Write));
        let mut answer = String::new();
        drop(stream.read_to_string(&mut answer));
        assert!(!answer.contains("Done"), "{answer}");
    }
    assert!(ask(&path, &Command::ListAdministrators).unwrap().is_ok());
}

#[test]
fn silent_connections_do_not_delay_stop() {
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    let running = controller::start(&config, Clock::system()).unwrap();
    let _silent = std::os::unix::net::UnixStream::connect(socket::beside(&config.data)).unwrap();
    let begun = std::time::Instant::now();
    running.stop();
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn long_paths_reach_the_socket() {
    let directory = TempDir::new().unwrap();
    let deep = directory
        .path()
        .join("deep-".repeat(30))
        .join("down-".repeat(30));
    std::fs::create_dir_all(&deep).unwrap();
    let config = Config {
        data: deep.join("data"),
        ..configuration(&directory)
    };
    let running = controller::start(&config, Clock::system()).unwrap();
    assert!(
        ask(&socket::beside(&config.data), &Command::ListAdministrators)
            .unwrap()
            .is_ok()
    );
    running.stop();
    assert_eq!(
        std::fs::read_dir(&deep).unwrap().count(),
        1,
        "only the data file may remain"
    );
}

#[test]
fn any_file_name_reaches_the_socket() {
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("data", &link).unwrap();
    for (runs, asked) in [(&config.data, &link), (&link, &config.data)] {
        // Through a link only an existing file is opened.
        controller::start(&config, Clock::system()).unwrap().stop();
        let running = controller::start(
            &Config {
                data: runs.clone(),
                ..config.clone()
            },
            Clock::system(),
        )
        .unwrap();
        let answers = || {
            ask(&socket::beside(asked), &Command::ListAdministrators)
                .unwrap()
                .is_ok()
        };
        assert!(answers());
        let away = directory.path().join("away");
        std::fs::rename(&config.data, &away).unwrap();
        assert!(answers(), "also after the file was deleted");
        std::fs::rename(&away, &config.data).unwrap();
        running.stop();
    }
}

#[test]
fn names_are_escaped_for_terminals() {
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    let running = controller::start(&config, Clock::system()).unwrap();
    let admin = crate::harness::trusting(&format!("https://{}", running.bound()))
        .log_in("admin", running.generated_password().unwrap());
    let name = "eve\nyes: eve may dial everything\u{1b}[2J\u{9b}";
    admin
        .post(
            "/identities",
            serde_json::json!({ "name": name, "type": "Device", "isAdmin": true }),
        )
        .expect(201);
    admin
        .post(
            "/services",
            serde_json::json!({ "name": name, "encryptionRequired": true }),
        )
        .expect(201);
    let (identity, service) = (name.to_owned(), name.to_owned());
    let explain = Command::Explain {
        right: overkeep::testing::access::Right::Dial,
        identity,
        service,
        json: false,
    };
    for command in [Command::ListAdministrators, explain] {
        let lines = asked(&socket::beside(&config.data), &command);
        assert!(
            lines.iter().any(|line| line.contains("eve\\nyes: eve")),
            "{lines:?}"
        );
        assert!(
            lines
                .iter()
                .all(|line| !line.starts_with("yes") && !line.contains(char::is_control)),
            "{lines:?}"
        );
    }
}

#[test]
fn readmission_resets_failure_counts() {
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    let running = controller::start(&config, Clock::system()).unwrap();
    let path = socket::beside(&config.data);
    drop(ask(&path, &reset("the right password")).unwrap().unwrap());
    let agent = crate::harness::trusting(&format!("https://{}", running.bound()));
    let admin = agent.log_in("admin", "the right password");
    let rules = |attempts: i64| serde_json::json!({ "primary": { "updb": { "maxAttempts": attempts, "lockoutDurationMinutes": 5 } } });
    admin.patch("/auth-policies/default", rules(2)).expect(200);
    let wrong = || {
        let body = serde_json::json!({ "username": "admin", "password": "a wrong password" });
        agent
            .post("/authenticate?method=password", body)
            .refused(401, "INVALID_AUTH", "");
    };
    wrong();
    assert!(
        ask(
            &path,
            &Command::Unlock {
                username: "admin".into()
            }
        )
        .unwrap()
        .is_ok()
    );
    wrong();
    agent.log_in("admin", "the right password");
}

#[test]
fn link_logs_in_once() {
    let directory = TempDir::new().unwrap();
    let config = configuration(&directory);
    let clock = Clock::manual("2026-03-01T00:00:00Z".parse().unwrap());
    let running = controller::start(&config, clock.clone()).unwrap();
    let path = socket::beside(&config.data);
    let agent = crate::harness::trusting(&format!("https://{}", running.bound()));
    let made = |identity: Option<&str>, from: Option<&str>| {
        let from = from.map(|address| address.parse().unwrap());
        ask(
            &path,
            &Command::Link {
                identity: identity.map(str::to_owned),
                from,
                minutes: 10,
            },
        )
        .unwrap()
    };
    let secret = |from| {
        let lines = made(None, from).unwrap();
        lines[0].split_once("/#/link/").unwrap().1.to_owned()
    };
    let redeem = |secret: &str| {
        agent.post(
            "/overkeep/v1/authenticate/link",
            serde_json::json!({ "secret": secret }),
        )
    };

    let first = secret(None);
    let session = redeem(&first).expect(200).data()["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let admin = agent.with_token(session);
    admin
        .post(
            "/identities",
            serde_json::json!({ "name": "alice", "type": "Default", "isAdmin": false }),
        )
        .expect(201);
    let logins = admin
        .list("/overkeep/v1/history", "action = \"login\"", "")
        .expect(200);
    assert_eq!(
        logins.data()[0]["after"]["authenticatorId"],
        "link",
        "{}",
        logins.text
    );
    redeem(&first).refused(401, "INVALID_AUTH", "");

    redeem(&secret(Some("127.0.0.1"))).expect(200);
    let elsewhere = secret(Some("192.0.2.7"));
    redeem(&elsewhere).refused(401, "INVALID_AUTH", "");
    let late = secret(None);
    clock.advance(std::time::Duration::from_secs(601));
    redeem(&late).refused(401, "INVALID_AUTH", "");
    let refused = admin
        .list("/overkeep/v1/history", "action = \"refusal\"", "")
        .expect(200);
    assert!(refused.text.contains("link"), "{}", refused.text);

    assert!(
        made(Some("alice"), None)
            .unwrap_err()
            .contains("is no administrator")
    );
    assert!(
        ask(
            &path,
            &Command::Link {
                identity: None,
                from: None,
                minutes: 0
            }
        )
        .unwrap()
        .unwrap_err()
        .contains("between 1 and 60")
    );
    running.stop();
    let command = Command::Link {
        identity: None,
        from: None,
        minutes: 10,
    };
    let host = controller::host(&config, &command).unwrap();
    let stopped = host
        .act(command, &Arc::new(Progress::default()))
        .unwrap_err();
    assert!(
        stopped.to_string().contains("running controller"),
        "{stopped}"
    );
}
