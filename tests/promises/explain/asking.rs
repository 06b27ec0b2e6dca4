//! How a question is asked and answered.

use super::*;

#[test]
fn tunneler_waits_for_its_router() {
    let asked = Asked::start();
    let server = &asked.server;
    let name = fresh("router");
    let id = server
        .admin
        .post(
            "/edge-routers",
            json!({ "name": name, "isTunnelerEnabled": true }),
        )
        .expect(201)
        .id();
    let service = server.service(&fresh("service"), json!({}));
    let router = || {
        server
            .admin
            .get(&format!("/edge-routers/{id}"))
            .expect(200)
            .data()
            .clone()
    };
    let stands = |state: &str, words: &str| {
        let why = asked.dial(&id, &service);
        assert_eq!(why["authentication"]["state"], state, "{why:#}");
        let obstacles = obstacles(&why);
        let obstacle = obstacles
            .iter()
            .find(|obstacle| obstacle["what"] == "noCredential")
            .unwrap();
        assert!(
            obstacle["text"].as_str().unwrap().starts_with(words) && obstacle["edits"] == json!([]),
            "{obstacle:#}"
        );
        why["authentication"]["until"].clone()
    };
    let until = stands(
        "neverEnrolled",
        &format!("the edge router {name} has not enrolled yet; its token is valid until"),
    );
    assert_eq!(until, router()["enrollmentExpiresAt"]);
    let (key, token) = (
        Key::new(),
        router()["enrollmentToken"].as_str().unwrap().to_owned(),
    );
    let requests = json!({ "certCsr": key.request_as(&id), "serverCertCsr": key.request() });
    server
        .anonymous()
        .post(&format!("/enroll?method=erott&token={token}"), requests)
        .expect(200);
    stands(
        "noCredential",
        &format!("{name} has no credential, because it is the tunneler of the edge router {name}"),
    );
}

#[test]
fn command_and_rest_agree() {
    let asked = Asked::start();
    let name = fresh("person");
    asked.server.user(&name, json!({}));
    let service = asked.server.service(&fresh("service"), json!({}));
    let why = asked.dial(&name, &service);
    assert_eq!(
        serde_json::from_str::<Json>(&asked.told(&name, &service, true).unwrap()).unwrap(),
        why
    );
    assert!(
        asked
            .told(&name, &service, false)
            .unwrap()
            .starts_with(&format!("no: {name} may not dial"))
    );
    assert!(
        asked
            .told("nobody", &service, false)
            .unwrap_err()
            .contains("nobody")
    );
    asked
        .ask("Dial", "nobody", &service)
        .refused(404, "NOT_FOUND", "");
    asked
        .ask("Invalid", &name, &service)
        .refused(400, "COULD_NOT_VALIDATE", "type");
    asked
        .server
        .admin
        .at(Base::Overkeep)
        .get("/explain?identity=x&type=Dial")
        .refused(400, "COULD_NOT_VALIDATE", "service");
    // A part that is there and empty is missing as well.
    asked
        .ask("Dial", "", &service)
        .refused(400, "COULD_NOT_VALIDATE", "identity");
    asked
        .ask("Dial", &name, "")
        .refused(400, "COULD_NOT_VALIDATE", "service");
    assert_eq!(
        asked.told(&name, "", false).unwrap_err(),
        "service: must not be empty"
    );
    // The answer without a running controller is the same, except for what only the controller
    // knows.
    let running = asked.told(&name, &service, false).unwrap();
    let Asked {
        server,
        data,
        _directory,
    } = asked;
    drop(server);
    let command = Command::Explain {
        right: Right::Dial,
        identity: name,
        service,
        json: false,
    };
    let host = controller::host(
        &Config {
            data,
            ..Config::default()
        },
        &command,
    )
    .unwrap();
    let Outcome::Problems(lines) = host.act(command, &Arc::new(Progress::default())).unwrap()
    else {
        panic!()
    };
    let (note, rest) = lines.split_last().unwrap();
    assert!(
        note.starts_with("note: no controller runs") && rest.join("\n") == running,
        "{lines:?}"
    );
}
