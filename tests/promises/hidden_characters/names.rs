//! Names with hidden characters: accepted, named and escaped.

use super::*;

#[test]
fn hidden_names_are_accepted_and_named() {
    let server = shared();
    let strict = |path: &str, body: &Json| {
        server
            .admin
            .post(&format!("{path}?strict=true"), body.clone())
    };
    for letter in HIDDEN {
        let name = format!("{}{letter}x", fresh("hidden"));
        let body = json!({ "name": name, "encryptionRequired": true, "roleAttributes": ["plain"] });
        strict("/services", &body).refused(400, "COULD_NOT_VALIDATE", "name");
        let made = server.admin.post("/services", body).expect(201);
        assert_eq!(
            made.header("overkeep-hidden-characters"),
            "name",
            "{letter:?}"
        );
        let shown = server
            .admin
            .get(&format!("/services/{}", made.id()))
            .expect(200);
        assert_eq!(shown.data()["name"], name);
        let renamed = server
            .admin
            .patch(
                &format!("/services/{}", made.id()),
                json!({ "name": format!("{name}y") }),
            )
            .expect(200);
        assert_eq!(renamed.header("overkeep-hidden-characters"), "name");
        let named = server
            .admin
            .patch(
                &format!("/services/{}", made.id()),
                json!({ "name": fresh("named") }),
            )
            .expect(200);
        assert_eq!(named.header("overkeep-hidden-characters"), "");
    }
    let cases = [
        (
            "/identities",
            json!({ "name": fresh("x"), "type": "Device", "isAdmin": false, "roleAttributes": ["a", "b\u{200b}"] }),
            "roleAttributes.1",
        ),
        (
            "/identities",
            json!({ "name": fresh("x"), "type": "Device", "isAdmin": false, "externalId": fresh("\u{202e}") }),
            "externalId",
        ),
        (
            "/identities",
            json!({ "name": fresh("x"), "type": "Device", "isAdmin": false, "tags": { "a": "b\u{9b}" } }),
            "tags.a",
        ),
        (
            "/identities",
            json!({ "name": fresh("x"), "type": "Device", "isAdmin": false, "enrollment": { "updb": fresh("\u{feff}") } }),
            "enrollment.updb",
        ),
        (
            "/service-policies",
            json!({ "name": fresh("x"), "type": "Dial", "semantic": "AnyOf", "identityRoles": ["#a\u{2066}"], "serviceRoles": [] }),
            "identityRoles.0",
        ),
        (
            "/edge-routers",
            json!({ "name": fresh("\u{2060}") }),
            "name",
        ),
    ];
    for (path, body, member) in cases {
        strict(path, &body).refused(400, "COULD_NOT_VALIDATE", member);
        assert_eq!(
            server
                .admin
                .post(path, body)
                .expect(201)
                .header("overkeep-hidden-characters"),
            member
        );
    }
    // Free data may hold anything.
    let types = server
        .admin
        .list("/config-types", "name = \"host.v1\"", "")
        .expect(200);
    let of = types.each("id")[0].to_owned();
    let data = json!({ "address": "a\u{200b}b", "port": 1, "protocol": "tcp" });
    let config = strict(
        "/configs",
        &json!({ "name": fresh("config"), "configTypeId": of, "data": data }),
    )
    .expect(201);
    assert_eq!(config.header("overkeep-hidden-characters"), "");
}

#[test]
fn doctor_finds_hidden_names() {
    let server = TestServer::start();
    let finding = || {
        let served = server.admin.get("/overkeep/v1/doctor").expect(200);
        let found = served
            .data()
            .as_array()
            .unwrap()
            .iter()
            .find(|finding| finding["check"] == "names")
            .unwrap()
            .clone();
        assert_plain(&served.text);
        (
            found["healthy"] == true,
            found["detail"].as_str().unwrap().to_owned(),
        )
    };
    assert!(finding().0);
    let service = server.service("web\u{202e}", json!({}));
    server.identity("ann\u{1b}[2J", json!({}));
    let (is_good, detail) = finding();
    assert!(
        !is_good
            && detail.starts_with("2 ")
            && detail.contains("service web\\u{202e}")
            && detail.contains("ann\\u{1b}[2J"),
        "{detail}"
    );
    let told = on_host(&server, &["doctor"]).out;
    assert!(told.contains("FAIL names: 2 "), "{told}");
    server
        .admin
        .delete(&format!("/services/{service}"))
        .expect(200);
    assert!(finding().1.starts_with("1 "));
}

#[test]
fn peers_choose_no_hidden_names() {
    let server = TestServer::start();
    let authority = Authority::new("partner");
    server.add_ca(&authority);
    let enroll = |common_name: &str, body: Json| {
        let key = Key::new();
        let holder = server.with_certificate(&authority.issue(common_name, &key), &key);
        holder.ask("POST", "/enroll?method=ca").json(&body).send()
    };
    for letter in HIDDEN {
        let name = format!("{}{letter}x", fresh("device"));
        enroll(&name, json!({})).refused(400, "COULD_NOT_VALIDATE", "");
        enroll(&fresh("device"), json!({ "name": name })).refused(
            400,
            "COULD_NOT_VALIDATE",
            "name",
        );
        // An identity may have such an external id, and no certificate logs in by it.
        let external = fresh(&format!("external{letter}"));
        server.identity(&fresh("identity"), json!({ "externalId": external }));
        let key = Key::new();
        let holder = server.with_certificate(&authority.issue(&external, &key), &key);
        holder
            .ask("POST", "/authenticate?method=cert")
            .send()
            .refused(401, "INVALID_AUTH", "");
    }
    enroll(&fresh("device"), json!({})).expect(200);
    let idp = signer();
    let keys = endpoint(crate::second_factors::AnswerMode::Keys(
        idp.keys().to_string(),
    ));
    let login = token_login_with(&keys.url, |_| ());
    let enters = |subject: &str| {
        let mut claims = claims();
        claims["sub"] = subject.into();
        login
            .runtime
            .block_on(login.tokens.login(
                &login.store,
                crate::second_factors::at(0),
                &idp.token(&claims),
            ))
            .is_ok()
    };
    assert!(enters("ann"));
    assert!(!HIDDEN.iter().any(|letter| enters(&format!("ann{letter}"))));
}

#[test]
fn commands_refuse_and_escape_names() {
    let server = TestServer::start();
    for letter in HIDDEN {
        let name = format!("web{letter}x");
        for line in [
            vec!["create", "service", &name],
            vec!["create", "identity", "plain", "--role-attributes", &name],
        ] {
            let ran = on_host(&server, &line);
            assert_plain(&ran.err);
            ran.bad(1, &["characters"]);
        }
        server.service(&name, json!({}));
        for words in [["show", "service", "web"], ["update", "service", "web"]] {
            let mut words: Vec<&str> = words.to_vec();
            words[2] = &name;
            let ran = on_host(&server, &words);
            assert_plain(&ran.out);
            assert_plain(&ran.err);
        }
        let explained = on_host(&server, &["explain", "dial", "admin", &name]);
        assert_plain(&explained.out);
        let explained = on_host(
            &server,
            &["explain", "dial", "Default Admin", &name, "--json"],
        );
        assert_plain(&explained.out);
    }
    for format in ["table", "name", "json", "yaml"] {
        assert_plain(&on_host(&server, &["list", "services", "-o", format]).good());
    }
    let listed = on_host(&server, &["list", "services", "-o", "json"]).json();
    let exported = on_host(&server, &["export"]).good();
    assert_plain(&exported);
    let network: Json = serde_saphyr::from_str(&exported).unwrap();
    for letter in HIDDEN {
        let name = format!("web{letter}x");
        for services in [&listed, &network["services"]] {
            assert!(
                services
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|service| service["name"] == name),
                "{letter:?}: {services}"
            );
        }
    }
}

#[test]
fn files_need_consent_to_hidden_names() {
    let server = TestServer::start();
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("network.yaml");
    std::fs::write(
        &file,
        "services:\n  - {name: \"web\\u202e\\x9b\", encryptionRequired: true}\n",
    )
    .unwrap();
    let path = file.to_str().unwrap();
    for command in ["plan", "apply"] {
        let ran = on_host(&server, &[command, path]);
        assert_plain(&ran.err);
        ran.bad(1, &["services.0.name"]);
    }
    let plan = on_host(&server, &["plan", path, "--accept-hidden-characters"]);
    assert_eq!(plan.status, 3, "{}", plan.err);
    assert_plain(&plan.out);
    assert_plain(&on_host(&server, &["apply", path, "--accept-hidden-characters"]).good());
    assert_eq!(
        server
            .admin
            .list("/services", "name = \"web\u{202e}\u{9b}\"", "")
            .expect(200)
            .total(),
        1
    );
    // What is exported can be applied.
    std::fs::write(&file, on_host(&server, &["export"]).good()).unwrap();
    assert!(
        on_host(&server, &["apply", path, "--accept-hidden-characters"])
            .good()
            .contains("nothing to do")
    );
}

/// Collects what is written.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn logged_text_forges_no_lines() {
    let foreign: String = HIDDEN
        .iter()
        .map(|letter| format!("a{letter}b"))
        .collect::<String>()
        + "\n2026-01-01T00:00:00Z ERROR overkeep: forged";
    for (format, terminal) in [
        (Format::Text, false),
        (Format::Text, true),
        (Format::Json, false),
    ] {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = logging::subscriber(
            &Log {
                level: "trace".into(),
                format,
            },
            terminal,
            move || writer.clone(),
        )
        .unwrap();
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("request", id = %foreign, path = foreign.as_str());
            let _inside = span.enter();
            tracing::trace!(reason = %foreign, "traced");
            tracing::debug!(reason = ?foreign, "the dial failed");
            tracing::info!(reason = foreign.as_str(), "informed");
            tracing::warn!("{foreign}");
            tracing::error!(error = %std::io::Error::other(foreign.clone()), "failed");
        });
        let written = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(written.lines().count(), 5, "{format:?}: {written}");
        let without_colours = if terminal {
            without_styles(&written)
        } else {
            written.clone()
        };
        assert_plain(&without_colours);
        if matches!(format, Format::Json) {
            let of = |line: &str| serde_json::from_str::<Json>(line).unwrap();
            assert_eq!(
                of(written.lines().next().unwrap())["reason"],
                foreign.as_str()
            );
        }
    }
}

/// A text without the colours and styles of a terminal.
fn without_styles(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once('m').map_or(part, |(_, rest)| rest)
    })
}

#[test]
fn imports_take_hidden_names() {
    let (from, home) = (TestServer::start(), TempDir::new().unwrap());
    from.service("web\u{202e}", json!({}));
    std::fs::write(home.path().join("password"), &from.password).unwrap();
    let url = format!("https://{}", from.bound());
    let words = [
        "import",
        "--from",
        &url,
        "--user",
        "admin",
        "--password-file",
        "password",
        "--yes",
    ];
    let ran = Ran::of(
        words.join(" "),
        program(home.path()).args(words).output().unwrap(),
    )
    .good();
    assert_plain(&ran);
    let network: Json = serde_saphyr::from_str(&ran).unwrap();
    assert_eq!(network["services"][0]["name"], "web\u{202e}");
    let answer = TestServer::start()
        .admin
        .at(Base::Overkeep)
        .put("/network", network)
        .expect(200);
    assert!(
        answer
            .header("overkeep-hidden-characters")
            .contains("services.0.name")
    );
}
