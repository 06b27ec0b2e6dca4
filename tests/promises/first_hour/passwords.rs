//! Passwords that are guessed first.

use super::*;

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
