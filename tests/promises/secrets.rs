//! No output holds a secret for a party that does not need it: the secrets of a run are searched
//! for in what every operation answers to every kind of caller, in messages to SDKs, and in what is
//! logged, exported, measured and printed.

use model::clock::Clock;
use rest::Permission;
use serde_json::{Value as Json, json};

use crate::{
    api_tokens::{path, rows},
    command_line::on_host,
    events::watch,
    harness::{Authority, Base, Caller, check_log, fresh, interface},
    history::{Secrets, story},
    metrics,
    router::{
        scene::{Scene, run},
        sdk::{Conn, Options},
    },
};

/// Secrets that administrators hand out, and path segments of the operations that show them.
const HANDED_OUT: [&str; 7] = [
    "enrollments",
    "identities",
    "edge-routers",
    "transit-routers",
    "routers",
    "cas",
    "policy-advice",
];
/// Path segments of the operations that show administrators the tokens of sessions, as clients
/// expect.
const SESSIONS: [&str; 3] = ["api-sessions", "sessions", "current-api-session"];

/// The secrets of a run by who may see them.
struct Planted {
    /// Nobody, after they were shown once.
    nobody: Vec<String>,
    handed_out: Vec<String>,
    sessions: Vec<String>,
}

impl Planted {
    fn all(&self) -> impl Iterator<Item = &String> {
        [&self.nobody, &self.handed_out, &self.sessions]
            .into_iter()
            .flatten()
    }

    /// The first secret in a text.
    fn found_in<'p>(&'p self, text: &str) -> Option<&'p str> {
        self.all()
            .find(|secret| text.contains(secret.as_str()))
            .map(String::as_str)
    }

    /// The first secret that an answer to an administrator must not hold.
    fn misplaced<'p>(&'p self, row: &str, text: &str) -> Option<&'p str> {
        let has = |parts: &[&str]| row.split('/').any(|part| parts.contains(&part));
        let hidden = [
            (&self.nobody, false),
            (&self.handed_out, has(&HANDED_OUT)),
            (&self.sessions, has(&SESSIONS)),
        ];
        let mut searched = hidden
            .into_iter()
            .filter(|(_, is_shown)| !is_shown)
            .flat_map(|(secrets, _)| secrets);
        searched
            .find(|secret| text.contains(secret.as_str()))
            .map(String::as_str)
    }
}

/// A scene with a circuit's worth of sessions, in which every kind of secret was made; its secrets,
/// and the ids of records.
fn planted() -> (Scene, Planted, Vec<String>, Caller) {
    let scene = Scene::on(metrics::with_metrics(Clock::system()), false);
    let server = &scene.server;
    let admin = &server.admin;
    let mut known = Secrets(Vec::new());
    story(server, &mut known);
    let token = admin
        .at(Base::Overkeep)
        .post("/api-tokens", json!({ "name": fresh("token") }))
        .expect(201);
    known.note(token.data(), "/token");
    let link = on_host(server, &["admin", "link"]).good();
    let link = link
        .split("#/link/")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap();
    known.0.push(link.to_owned());
    let (mut handed_out, mut sessions) = (Vec::new(), Vec::new());
    let authority = server.add_ca(&Authority::new("of a partner"));
    let transit = admin
        .post("/transit-routers", json!({ "name": fresh("transit") }))
        .expect(201)
        .id();
    let text = |json: &Json| json.as_str().unwrap().to_owned();
    handed_out.push(text(
        &admin.get(&format!("/cas/{authority}")).expect(200).data()["verificationToken"],
    ));
    for enrollment in admin
        .get("/enrollments?limit=500")
        .expect(200)
        .data()
        .as_array()
        .unwrap()
    {
        handed_out.extend(["token", "jwt"].map(|member| text(&enrollment[member])));
    }
    sessions.extend([
        scene.client.token().to_owned(),
        scene.client.session(&scene.service, "Dial"),
        scene.host.session(&scene.service, "Bind"),
    ]);
    for session in admin
        .get("/api-sessions?limit=500")
        .expect(200)
        .data()
        .as_array()
        .unwrap()
    {
        sessions.push(text(&session["token"]));
    }
    // What is handed out or opens a session was noted by the story, too, as well as what was
    // replaced or has ended.
    let nobody: Vec<String> = known
        .0
        .into_iter()
        .filter(|secret| !handed_out.contains(secret) && !sessions.contains(secret))
        .collect();
    assert!(nobody.len() > 25 && handed_out.len() >= 5 && sessions.len() >= 6);
    let mut ids = vec![
        authority,
        transit,
        scene.client.id.clone(),
        scene.host.id.clone(),
        scene.service.clone(),
        token.id(),
    ];
    for kind in [
        "identities",
        "services",
        "edge-routers",
        "api-sessions",
        "sessions",
        "enrollments",
        "authenticators",
        "terminators",
    ] {
        ids.extend(
            admin
                .get(&format!("/{kind}?limit=2"))
                .expect(200)
                .each("id")
                .into_iter()
                .map(str::to_owned),
        );
    }
    let reader = admin
        .at(Base::Overkeep)
        .post(
            "/api-tokens",
            json!({ "name": fresh("reader"), "actions": ["read"] }),
        )
        .expect(201);
    let reader = server
        .anonymous()
        .with_token(reader.data()["token"].as_str().unwrap());
    (
        scene,
        Planted {
            nobody,
            handed_out,
            sessions,
        },
        ids,
        reader,
    )
}

/// What every operation that only reads answers to a caller, with the path of its row. Returns how
/// many answered.
fn each_answer(caller: &Caller, ids: &[String], mut found: impl FnMut(&str, &str)) -> usize {
    let open = Base::ALL
        .into_iter()
        .flat_map(|base| interface(base).rows().map(move |row| (base, row)));
    let open = open.filter(|(_, row)| row.permission == Permission::Open);
    let mut answered = 0;
    for (base, row) in rows()
        .chain(open)
        .filter(|(_, row)| row.method == "GET" && row.path != "/events")
    {
        let tried = if row.path.contains('{') {
            ids
        } else {
            &ids[..1]
        };
        for id in tried {
            let answer = caller.at(base).get(&path(row, id));
            answered += usize::from(answer.status == 200);
            found(&row.path, &answer.text);
        }
    }
    answered
}

#[test]
fn answers_hold_secrets_only_where_needed() {
    let (scene, planted, ids, reader) = planted();
    let admin = scene.server.admin.clone();
    let answered = each_answer(&admin, &ids, |row, text| {
        assert_eq!(
            planted.misplaced(row, text),
            None,
            "an administrator: {row}"
        )
    });
    assert!(answered > 300, "{answered}");
    for (who, caller, least) in [
        ("an API token", &reader, 200),
        ("nobody", &scene.server.anonymous(), 10),
    ] {
        let answered = each_answer(caller, &ids, |row, text| {
            assert_eq!(planted.found_in(text), None, "{who}: {row}")
        });
        assert!(answered >= least, "{who}: {answered}");
    }
    // The host may see what is its own.
    let host = &scene.host.caller;
    let own = |text: &str| {
        planted
            .all()
            .filter(|secret| text.contains(secret.as_str()))
            .find(|secret| **secret != *scene.host.token())
            .cloned()
    };
    let its = scene.host.session(&scene.service, "Bind");
    each_answer(host, &ids, |row, text| {
        assert_eq!(
            own(text).filter(|secret| *secret != its),
            None,
            "an identity: {row}"
        )
    });
}

#[test]
fn tokens_are_hidden_on_request() {
    let (scene, planted, ids, _) = planted();
    for row in ["/api-sessions", "/sessions", "/enrollments", "/identities"] {
        for path in ids
            .iter()
            .map(|id| format!("{row}/{id}"))
            .chain([format!("{row}?limit=500")])
        {
            let answer = scene
                .server
                .admin
                .ask("GET", &path)
                .header("overkeep-tokens", "hidden")
                .send();
            assert_eq!(planted.found_in(&answer.text), None, "{path}");
        }
    }
    let whole = scene
        .server
        .admin
        .get("/api-sessions?limit=500")
        .expect(200);
    assert!(
        planted.found_in(&whole.text).is_some(),
        "other callers get tokens, as clients expect"
    );
}

#[test]
fn outputs_hold_no_secret() {
    let (scene, planted, ..) = planted();
    let server = &scene.server;
    let search =
        |what: &str, text: &str| assert_eq!(planted.found_in(text), None, "{what}: {text}");
    search("metrics", &metrics::text(server));
    let fixed: [&[&str]; 9] = [
        &["export"],
        &["export", "--openziti"],
        &["doctor"],
        &["doctor", "-o", "json"],
        &["history", "verify"],
        &["expiring"],
        &["admin", "list"],
        &["pki", "status"],
        &["check"],
    ];
    for words in fixed {
        let ran = on_host(server, words);
        assert!(!ran.out.is_empty(), "{words:?}: {}", ran.err);
        search(&words.join(" "), &(ran.out + &ran.err));
    }
    for path in [
        "/",
        "/page/main.js",
        "/health",
        "/ready",
        "/health-checks",
        "/version",
        "/docs",
    ] {
        search(
            path,
            &server.anonymous().get(&format!("/{path}")).expect(200).text,
        );
    }
    let mut events = watch(&server.admin, "0");
    let last = server.service(&fresh("last"), json!({}));
    let mut watched = 0;
    while let Some(event) = events.next() {
        search("an event", &event.data.to_string());
        watched += 1;
        if event.data["id"] == last.as_str() {
            break;
        }
    }
    assert!(watched > 30, "{watched}");
    check_log(planted.all());
}

#[test]
fn hosts_learn_no_secret_of_dialers() {
    let (scene, planted, ..) = planted();
    run(async {
        let (client, mut accepted, host): (Conn, Conn, _) = scene.connected(Options::GO).await;
        client.send(b"hello").await;
        assert_eq!(accepted.data().await, b"hello");
        let sent = [
            &*client.sdk.welcome,
            &client.made_by,
            &*host.sdk.welcome,
            &host.bound,
            &accepted.made_by,
        ];
        let ours = host.token.clone();
        for frame in sent {
            let text = String::from_utf8_lossy(frame.as_bytes()).replace(&ours, "");
            assert_eq!(
                planted.found_in(&text),
                None,
                "a message of type {}",
                frame.content_type()
            );
            assert!(
                !text.contains("127.0.0.1"),
                "an address in a message of type {}",
                frame.content_type()
            );
        }
    });
}
