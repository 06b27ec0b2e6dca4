//! Metrics, their listener, and warnings about what expires.

use std::{collections::BTreeSet, net::SocketAddr, path::Path, time::Duration};

use model::clock::Clock;
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::{
    command_line::on_host,
    harness::{Base, TestServer, fresh},
};

/// A controller with a metrics listener.
pub fn with_metrics(clock: Clock) -> TestServer {
    TestServer::with(clock, |config| {
        config.metrics.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        config.router.enabled = true;
    })
}

/// The status, the media type and the text of an answer of the listener.
fn ask(server: &TestServer, method: &str, path: &str, accept: &str) -> (u16, String, String) {
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(60)));
    let agent: ureq::Agent = config.build().into();
    let url = format!("http://{}{path}", server.metrics_bound());
    let request = ureq::http::Request::builder()
        .method(method)
        .uri(url)
        .header("accept", accept)
        .body(())
        .unwrap();
    let mut answer = agent.run(request).unwrap();
    let media = answer
        .headers()
        .get("content-type")
        .map(|media| media.to_str().unwrap().to_owned())
        .unwrap_or_default();
    (
        answer.status().as_u16(),
        media,
        answer.body_mut().read_to_string().unwrap(),
    )
}

pub fn text(server: &TestServer) -> String {
    let (status, media, text) = ask(server, "GET", "/metrics", "*/*");
    assert_eq!(
        (status, media.as_str()),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    text
}

/// The value of a series, by its name and labels as the text has them.
pub fn value(text: &str, series: &str) -> Option<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

/// The names of all series.
fn names(text: &str) -> BTreeSet<&str> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(['{', ' ']).next().unwrap())
        .collect()
}

#[test]
fn what_happens_is_counted() {
    let server = with_metrics(Clock::system());
    let name = fresh("somebody");
    server.user(&name, json!({}));
    server
        .anonymous()
        .ask("POST", "/authenticate?method=password")
        .json(&json!({ "username": name, "password": "not the right one" }))
        .send()
        .expect(401);
    server.admin.get("/services/none").expect(404);
    server.admin.get("/services/other").expect(404);
    let text = text(&server);
    let count =
        |series: &str| value(&text, series).unwrap_or_else(|| panic!("no {series} in\n{text}"));
    assert_eq!(
        count(
            r#"overkeep_http_requests_total{interface="management",method="GET",path="/services/{id}",status="404"}"#
        ),
        2.0
    );
    assert_eq!(
        count(
            r#"overkeep_http_request_duration_seconds_count{interface="management",method="GET",path="/services/{id}"}"#
        ),
        2.0
    );
    assert_eq!(count(r#"overkeep_logins_total{method="password"}"#), 2.0);
    assert_eq!(count(r#"overkeep_refusals_total{method="password"}"#), 1.0);
    assert_eq!(count("overkeep_api_sessions"), 2.0);
    assert!(
        count("overkeep_store_commit_duration_seconds_count") >= 3.0
            && count("overkeep_store_jobs_total") >= 3.0
    );
    assert_eq!(count("overkeep_store_queue_jobs"), 0.0);
    assert_eq!(
        (
            count("overkeep_store_writable"),
            count("overkeep_data_file_in_place")
        ),
        (1.0, 1.0)
    );
    assert_eq!(
        count("overkeep_data_file_bytes"),
        server.data().metadata().unwrap().len() as f64
    );
    assert!(count("overkeep_data_free_bytes") > 0.0);
    let year = 365.0 * 86_400.0;
    let ends = count(r#"overkeep_certificate_end_timestamp_seconds{kind="root"}"#);
    assert!(ends > server.clock.now().seconds() as f64 + year, "{ends}");
    assert_eq!(count(r#"overkeep_edge_routers{kind="online"}"#), 1.0);
    assert_eq!(
        count(r#"overkeep_router_events_total{kind="dials-refused"}"#),
        0.0
    );
    assert_eq!(
        count(&format!(
            "overkeep_build_info{{version=\"{}\"}}",
            env!("CARGO_PKG_VERSION")
        )),
        1.0
    );
}

#[test]
fn clients_add_no_series() {
    let server = with_metrics(Clock::system());
    let series = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with("overkeep_http_requests_total"))
            .count()
    };
    let ask = |n: usize| {
        server.admin.get(&format!("/services/{n}")).expect(404);
        server
            .anonymous()
            .get(&format!("/nothing/at/{n}?x={n}"))
            .expect(404);
        server
            .admin
            .ask("GET", &format!("/identities/{n}"))
            .header(&format!("x-{n}"), "y")
            .send()
            .expect(404);
    };
    ask(0);
    let before = series(&text(&server));
    (1..40).for_each(ask);
    assert_eq!(series(&text(&server)), before);
}

#[test]
fn both_formats_are_well_formed() {
    let server = with_metrics(Clock::system());
    let (status, media, open) = ask(
        &server,
        "GET",
        "/metrics",
        "application/openmetrics-text; version=1.0.0, text/plain;q=0.5",
    );
    assert_eq!(
        (status, media.as_str()),
        (
            200,
            "application/openmetrics-text; version=1.0.0; charset=utf-8"
        )
    );
    assert!(
        open.ends_with("# EOF\n") && open.contains("# UNIT overkeep_data_file_bytes bytes\n"),
        "{open}"
    );
    let text = text(&server);
    assert!(!text.contains("# EOF") && !text.contains("# UNIT"));
    let typed: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    for name in names(&text) {
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .filter(|base| typed.contains(base));
        assert!(typed.contains(base.unwrap_or(name)), "{name} has no type");
        assert!(
            text.contains(&format!("# HELP {} ", base.unwrap_or(name))),
            "{name} has no help"
        );
    }
    let counters = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"));
    assert!(counters.clone().count() > 5 && counters.clone().all(|name| name.ends_with("_total")));
}

#[test]
fn the_listener_answers_nothing_else() {
    let server = with_metrics(Clock::system());
    assert_eq!(
        ask(&server, "GET", "/edge/management/v1/identities", "*/*").0,
        404
    );
    assert_eq!(ask(&server, "GET", "/", "*/*").0, 404);
    assert_eq!(ask(&server, "DELETE", "/metrics", "*/*").0, 405);
    server.anonymous().get("//metrics").expect(404);
}

#[test]
fn alerts_name_metrics_that_exist() {
    let server = with_metrics(Clock::system());
    server
        .anonymous()
        .ask("POST", "/authenticate?method=cert")
        .json(&json!({}))
        .send()
        .expect(401);
    server.run_due_jobs();
    let text = text(&server);
    let typed: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let mut seen = 0;
    for file in [
        "examples/monitoring/alerts.yml",
        "examples/monitoring/alerts_test.yml",
        "examples/monitoring/dashboard.json",
        "docs/operating.md",
    ] {
        let content =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        for (at, _) in content.match_indices("overkeep_") {
            let rest = &content[at..];
            let name = &rest[..rest
                .find(|c: char| !c.is_ascii_lowercase() && c != '_')
                .unwrap_or(rest.len())];
            // The file of a package, such as overkeep_*.deb.
            if name == "overkeep_" {
                continue;
            }
            let base = name.strip_suffix("_bucket").unwrap_or(name);
            assert!(
                typed.contains(base),
                "{file} names {name}, which is no metric"
            );
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen}");
    let dashboard = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/monitoring/dashboard.json"),
    )
    .unwrap();
    assert!(
        serde_json::from_str::<Json>(&dashboard).unwrap()["panels"]
            .as_array()
            .unwrap()
            .len()
            > 8
    );
}

#[test]
fn what_ends_is_told_before() {
    let server = with_metrics(Clock::manual(Clock::system().now()));
    let name = fresh("enrolling");
    server.identity(&name, json!({ "enrollment": { "ott": true } }));
    assert_eq!(
        on_host(&server, &["expiring", "--within", "1h"]).good(),
        "nothing expires within this time"
    );
    let found = on_host(&server, &["expiring", "--within", "1d", "--json"]);
    assert_eq!(found.status, 3);
    let found: Json = serde_json::from_str(&found.out).unwrap();
    assert_eq!(
        (
            &found["total"],
            &found["items"][0]["kind"],
            &found["items"][0]["name"]
        ),
        (&json!(1), &json!("enrollment"), &json!(name))
    );
    let others = server
        .admin
        .at(Base::Overkeep)
        .get("/expiring?within=1d&enrollments=false")
        .expect(200);
    assert_eq!(others.data()["total"], 0);
    server.run_due_jobs();
    let count = |kind: &str| {
        value(
            &text(&server),
            &format!("overkeep_expiring{{kind=\"{kind}\"}}"),
        )
        .unwrap()
    };
    assert_eq!(
        (count("enrollment"), count("controller-certificate")),
        (1.0, 0.0)
    );
    let all = on_host(&server, &["expiring", "--within", "36500d"]);
    assert!(
        all.status == 3 && all.out.contains("controller-certificate"),
        "{}",
        all.out
    );
    on_host(&server, &["expiring", "--within", "soon"]).bad(1, &["within"]);
    server
        .anonymous()
        .at(Base::Overkeep)
        .get("/expiring")
        .expect(401);
    let token = fresh("token");
    let made = on_host(
        &server,
        &[
            "create",
            "api-token",
            &token,
            "--actions",
            "read",
            "-o",
            "json",
        ],
    )
    .json();
    let found = on_host(&server, &["expiring", "--within", "91d", "--json"]);
    let found: Json = serde_json::from_str(&found.out).unwrap();
    let tokens: Vec<&Json> = found["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["kind"] == "api-token")
        .collect();
    assert_eq!(
        tokens
            .iter()
            .map(|item| (&item["id"], &item["name"]))
            .collect::<Vec<_>>(),
        [(&made["id"], &json!(token))]
    );
    server.run_due_jobs();
    assert_eq!(
        value(&text(&server), "overkeep_expiring{kind=\"api-token\"}"),
        Some(0.0)
    );
}

#[test]
fn an_overdue_snapshot_speaks_up() {
    let place = TempDir::new().unwrap();
    // No directory can be made below a file.
    let blocked = place.path().join("file").join("snapshots");
    std::fs::write(place.path().join("file"), "").unwrap();
    let clock = Clock::manual(Clock::system().now());
    let server = TestServer::with(clock.clone(), |config| {
        config.metrics.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        config.snapshots.directory = Some(blocked.clone());
    });
    let due = clock.now();
    let count = || value(&text(&server), "overkeep_expiring{kind=\"snapshot\"}");
    server.run_due_jobs();
    assert_eq!(
        (on_host(&server, &["expiring"]).status, count()),
        (0, Some(0.0))
    );
    clock.advance(Duration::from_secs(25 * 60 * 60));
    server.run_due_jobs();
    let found = on_host(&server, &["expiring", "--within", "0s", "--json"]);
    assert_eq!((found.status, count()), (3, Some(1.0)));
    let found: Json = serde_json::from_str(&found.out).unwrap();
    let overdue = json!({ "kind": "snapshot", "id": "", "name": blocked.to_str().unwrap(), "endsAt": due.to_string() });
    assert_eq!((&found["total"], &found["items"][0]), (&json!(1), &overdue));
}
