//! The owner of the data file always gets in.

use super::*;

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
