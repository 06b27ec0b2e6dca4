//! The configuration of an edge router that the API and the command line print.

use serde_json::{Value as Json, json};

use crate::{
    command_line::on_host,
    harness::{Base, TestServer, fresh},
};

/// The configuration in docs/routers.md with these values.
fn documented(values: &[(&str, &str)]) -> Json {
    let page = include_str!("../../docs/routers.md");
    let text = page
        .split("```yaml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let text = values.iter().fold(text.to_owned(), |text, (name, value)| {
        assert!(text.contains(&format!("{{{name}}}")), "{name}");
        text.replace(&format!("{{{name}}}"), value)
    });
    serde_saphyr::from_str(&text).unwrap()
}

fn controller(server: &TestServer) -> String {
    let versions = server.anonymous().get("/version").expect(200);
    let url = versions.data()["apiVersions"]["edge"]["v1"]["apiBaseUrls"][0]
        .as_str()
        .unwrap()
        .to_owned();
    url.trim_start_matches("https://")
        .split('/')
        .next()
        .unwrap()
        .to_owned()
}

#[test]
fn it_is_the_documented_one() {
    let server = TestServer::start();
    let name = fresh("oslo");
    on_host(&server, &["create", "edge-router", &name]).good();
    let words = [
        "--advertise",
        "oslo.example.org:443",
        "--link-port",
        "6000",
        "--folder",
        "/var/lib/oslo",
    ];
    let printed = on_host(
        &server,
        &[
            &["show", "edge-router", "configuration", &name],
            words.as_slice(),
        ]
        .concat(),
    )
    .good();
    let values = [
        ("folder", "/var/lib/oslo"),
        ("controller", &controller(&server)),
        ("name", "oslo.example.org"),
        ("port", "443"),
        ("link", "6000"),
    ];
    assert_eq!(
        serde_saphyr::from_str::<Json>(&printed).unwrap(),
        documented(&values)
    );
}

#[test]
fn every_form_prints_it() {
    let server = TestServer::start();
    let [name, other] = ["oslo", "bergen"].map(fresh);
    let made = on_host(&server, &["create", "edge-router", &name, "-o", "config"]).good();
    let controller = controller(&server);
    let expected = |name: &str| {
        documented(&[
            ("folder", "."),
            ("controller", &controller),
            ("name", name),
            ("port", "3022"),
            ("link", "10080"),
        ])
    };
    assert_eq!(
        serde_saphyr::from_str::<Json>(&made).unwrap(),
        expected(&name)
    );
    assert_eq!(
        on_host(&server, &["show", "edge-router", &name, "-o", "config"]).good(),
        made
    );
    on_host(&server, &["create", "edge-router", &other]).good();
    // The built-in router is in the list and has none.
    let all = on_host(
        &server,
        &[
            "list",
            "edge-routers",
            "--sort",
            "name desc",
            "-o",
            "config",
        ],
    )
    .good();
    let all: Vec<Json> = all
        .split("\n---\n")
        .map(|one| serde_saphyr::from_str(one).unwrap())
        .collect();
    assert_eq!(all, [expected(&name), expected(&other)]);
    on_host(&server, &["show", "service", "x", "-o", "config"]).bad(2, &["config"]);
}

#[test]
fn places_that_cannot_be_are_refused() {
    let server = TestServer::start();
    let admin = server.admin.at(Base::Overkeep);
    let id = server
        .admin
        .post("/edge-routers", json!({ "name": "not a host name" }))
        .expect(201)
        .id();
    let path = |query: &str| format!("/edge-routers/{id}/configuration{query}");
    admin
        .get(&path(""))
        .refused(400, "COULD_NOT_VALIDATE", "advertise");
    for wrong in ["nowhere", "a%20b:1", "host:0", "0.0.0.0:3022"] {
        admin.get(&path(&format!("?advertise={wrong}"))).refused(
            400,
            "COULD_NOT_VALIDATE",
            "advertise",
        );
    }
    assert_eq!(
        admin.get(&path("?advertise=h:1&linkPort=70000")).status,
        400
    );
    admin
        .get("/edge-routers/built-in/configuration")
        .expect(404);
    admin.get("/edge-routers/unknown/configuration").expect(404);
    let shown = admin
        .get(&path("?advertise=[2001:db8::1]:443&linkPort=0"))
        .expect(200)
        .data()
        .clone();
    assert_eq!(
        shown["edge"]["csr"]["sans"],
        json!({ "ip": ["2001:db8::1"] })
    );
    assert_eq!(
        shown["listeners"][0]["options"]["advertise"],
        "[2001:db8::1]:443"
    );
    assert_eq!(
        shown["link"],
        json!({ "dialers": [{ "binding": "transport" }] })
    );
}
