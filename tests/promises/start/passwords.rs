//! The first administrator's password.

use super::*;

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
