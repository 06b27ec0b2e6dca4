//! Who a command is: the host, or a log-in elsewhere.

use super::*;

#[test]
fn the_host_is_the_author() {
    let server = &TestServer::start();
    let id = on_host(server, &["create", "service", &fresh("by-the-host")]).good();
    let rows = on_host(
        server,
        &[
            "list",
            "history",
            "--filter",
            &format!("id = \"{id}\""),
            "-o",
            "json",
        ],
    )
    .json();
    assert_eq!(rows[0]["by"]["who"], "local", "{rows}");
    assert!(rows[0]["by"]["session"].is_null());
}

#[test]
fn a_log_in_reaches_it_elsewhere() {
    let server = TestServer::start();
    let home = tempfile::TempDir::new().unwrap();
    let url = format!("https://{}", server.bound());
    let run = |words: &[&str]| {
        Ran::of(
            words.join(" "),
            program(home.path())
                .args(words)
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    };
    let file = home.path().join("password");
    std::fs::write(&file, &server.password).unwrap();
    let login = ["login", &url, "--password-file", "password"];
    let with = |more: &[&str]| run(&[login.as_slice(), more].concat());
    let context = home.path().join("overkeep/contexts.json");

    with(&[]).bad(1, &["fingerprint", "--fingerprint"]);
    with(&["--fingerprint", &"ab".repeat(32)]).bad(1, &["another fingerprint"]);
    run(&["login", "http://localhost", "--yes"]).bad(2, &["https://"]);
    assert!(!context.exists());
    let told = with(&["--yes"]).good();
    let print = told
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("authority: "))
        .unwrap()
        .to_owned();
    assert_eq!(
        std::fs::metadata(&context).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(
        !std::fs::read_to_string(&context)
            .unwrap()
            .contains(&server.password)
    );

    let name = fresh("from-elsewhere");
    let id = run(&["create", "service", &name]).good();
    assert_eq!(
        run(&["show", "service", &name, "-o", "json"]).json()["id"],
        id
    );
    run(&["create", "service", &name]).bad(1, &["name"]);
    let rows = run(&[
        "list",
        "history",
        "--filter",
        &format!("id = \"{id}\""),
        "-o",
        "json",
    ])
    .json();
    assert_eq!(rows[0]["by"]["who"], "identity");
    assert!(run(&["logout"]).good().contains("logged out"));
    assert!(!std::fs::read_to_string(&context).unwrap().contains("token"));
    run(&["logout"]).bad(1, &["there is no login"]);
    run(&["list", "services"]).bad(1, &["no controller answers"]);

    with(&["--fingerprint", &print.to_lowercase()]).good();
    let other = crate::harness::Authority::new("somebody else");
    std::fs::write(home.path().join("other.pem"), other.pem()).unwrap();
    with(&["--ca", "other.pem"]).bad(1, &["certificate"]);
    run(&["list", "services"]).good();
    std::fs::write(&file, "not the password").unwrap();
    with(&["--yes"]).bad(1, &[]);
    let stored: Json = serde_json::from_str(&std::fs::read_to_string(&context).unwrap()).unwrap();
    let token = stored["contexts"][server.bound().to_string()]["token"].clone();
    server
        .admin
        .with_token(token.as_str().unwrap())
        .ask("DELETE", "/current-api-session")
        .send()
        .expect(200);
    run(&["list", "services"]).bad(1, &["overkeep login"]);
}

#[test]
fn large_and_foreign_requests_are_refused() {
    let server = TestServer::start();
    let socket = socket::beside(&server.data());
    let ask = |request: LocalRequest| {
        let (mut head, mut body) = (0, Vec::new());
        let told = request::ask(&socket, request, &mut |part| {
            match part {
                LocalPart::Head { status, .. } => head = status,
                LocalPart::Piece(piece) => body.extend(piece),
            }
            Ok(())
        });
        told.unwrap().unwrap();
        (head, String::from_utf8(body).unwrap())
    };
    let get = |path: &str| LocalRequest {
        method: "GET".into(),
        path: path.into(),
        ..LocalRequest::default()
    };
    assert_eq!(ask(get("/edge/management/v1/services")).0, 200);
    assert_eq!(ask(get("/edge/management/v1/nothing")).0, 404);
    assert_eq!(
        ask(LocalRequest {
            method: "DELETE".into(),
            ..get("/edge/management/v1/services")
        })
        .0,
        405
    );
    let json = vec![("content-type".to_owned(), "application/json".to_owned())];
    let post = |body: String| LocalRequest {
        method: "POST".into(),
        headers: json.clone(),
        body,
        ..get("/edge/management/v1/services")
    };
    assert_eq!(ask(post(" ".repeat((1 << 20) + 1))).0, 413);
    assert_eq!(ask(post("{".into())).0, 400);
    assert_eq!(
        ask(LocalRequest {
            headers: Vec::new(),
            ..post("{}".into())
        })
        .0,
        400
    );
    let strict = |query: &str| LocalRequest {
        query: query.into(),
        ..get("/edge/management/v1/services")
    };
    assert_eq!(
        (
            ask(strict("nothing=1")).0,
            ask(strict("nothing=1&strict=true")).0
        ),
        (200, 400)
    );
    let header = vec![("no header".to_owned(), "x".to_owned())];
    assert_eq!(
        ask(LocalRequest {
            headers: header,
            ..get("/edge/management/v1/services")
        })
        .0,
        400
    );
    assert!(
        request::ask(&socket, post("x".repeat(17 << 20)), &mut |_| Ok(()))
            .unwrap()
            .is_err()
    );
    assert_eq!(ask(get("/edge/management/v1/services")).0, 200);
}
