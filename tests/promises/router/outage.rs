//! Who hosts a service, since when nobody does, and which dials fail: at the built-in router.

use std::time::Duration;

use overkeep::testing::{
    access::Right,
    admin_socket::{Command, socket},
    clock::Clock,
};
use serde_json::{Value as Json, json};

use super::{
    scene::{Member, Scene, run, soon},
    sdk::{Options, Sdk},
};
use crate::{
    admin_socket::asked,
    harness::{Base, TestServer, encoded, fresh},
    metrics,
};

/// What the controller says about who hosts a service.
pub fn hosting(server: &TestServer, service: &str) -> Json {
    let listed = server
        .admin
        .at(Base::Overkeep)
        .list("/hosting", &format!("id = \"{service}\""), "")
        .expect(200);
    listed.data()[0].clone()
}

pub fn state(server: &TestServer, service: &str) -> String {
    hosting(server, service)["state"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The ids of the services that need attention, of one group.
pub fn needing(server: &TestServer, group: &str) -> Vec<String> {
    let attention = server
        .admin
        .at(Base::Overkeep)
        .get("/attention")
        .expect(200);
    let group = &attention.data()[group];
    let first: Vec<String> = group["first"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap().to_owned())
        .collect();
    assert!(group["total"].as_u64().unwrap() >= first.len() as u64);
    first
}

/// The explanation of a dial, as text and as JSON.
pub fn explained(server: &TestServer, identity: &str, service: &str) -> (String, Json) {
    let command = Command::Explain {
        right: Right::Dial,
        identity: identity.into(),
        service: service.into(),
        json: false,
    };
    let text = asked(&socket::beside(&server.data()), &command).join("\n");
    let path = format!("/explain?identity={identity}&service={service}&type=Dial");
    (
        text,
        server
            .admin
            .at(Base::Overkeep)
            .get(&path)
            .expect(200)
            .data()
            .clone(),
    )
}

/// Rows about the hosts of a service, the newest first.
fn rows(server: &TestServer, filter: &str) -> Vec<Json> {
    let filter =
        format!("kind = \"service\" and action in [\"connect\", \"disconnect\"] and {filter}");
    let listed = server
        .admin
        .at(Base::Overkeep)
        .get(&format!("/history?limit=100&filter={}", encoded(&filter)))
        .expect(200);
    listed.data().as_array().unwrap().clone()
}

fn names(hosts: &Json) -> Vec<&str> {
    hosts
        .as_array()
        .unwrap()
        .iter()
        .map(|host| host["name"].as_str().unwrap())
        .collect()
}

#[test]
fn hosts_that_leave_are_told() {
    let scene = Scene::new();
    let (server, service) = (&scene.server, scene.service.as_str());
    let name = server
        .admin
        .get(&format!("/services/{service}"))
        .expect(200)
        .data()["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let new = hosting(server, service);
    assert_eq!(
        (&new["state"], &new["text"], new.get("since")),
        (
            &"never-hosted".into(),
            &format!("nobody has hosted {name} yet").into(),
            None
        )
    );
    assert!(
        needing(server, "unhostedServices").is_empty(),
        "a service that was just created is no outage"
    );
    assert!(
        explained(server, &scene.client.id, service)
            .0
            .contains("nobody has hosted it yet")
    );

    let first = run(scene.hosted(Options::GO));
    let hosted = hosting(server, service);
    assert_eq!(
        (&hosted["state"], &hosted["text"]),
        (
            &"hosted".into(),
            &format!("{name} is hosted by {}", scene.host.name).into()
        )
    );
    assert_eq!(
        (
            &hosted["hosts"][0]["identity"]["name"],
            &hosted["hostCount"]
        ),
        (&scene.host.name.as_str().into(), &1.into())
    );

    // A second host. While one of them is there, the service is hosted.
    let other = Member::new(server, "other");
    let policy = server.service_policy(
        "Bind",
        &[&format!("@{}", other.id)],
        &[&format!("@{service}")],
    );
    let _second = run(async {
        other
            .connect(server, Options::GO)
            .await
            .host(&other.session(service, "Bind"))
            .await
            .unwrap()
    });
    assert_eq!(hosting(server, service)["hostCount"], 2);
    run(first.sdk.leave());
    assert!(soon(|| hosting(server, service)["hostCount"] == 1));
    assert_eq!(state(server, service), "hosted");

    // The second one loses its right: nobody is left.
    let before = server.clock.now();
    server
        .admin
        .delete(&format!("/service-policies/{policy}"))
        .expect(200);
    assert!(soon(|| state(server, service) == "unhosted"));
    let lost = hosting(server, service);
    let since = lost["since"].as_str().unwrap();
    let at: overkeep::testing::clock::Timestamp = since.parse().unwrap();
    assert!(
        at.millis() >= before.millis() && at.millis() <= server.clock.now().millis(),
        "{lost:#}"
    );
    assert_eq!(
        (&lost["text"], &lost["lastHost"]["name"]),
        (
            &format!("nobody hosts {name} since {since}").into(),
            &other.name.as_str().into()
        )
    );
    assert!(lost.get("orEarlier").is_none());
    assert_eq!(needing(server, "unhostedServices"), [service]);
    let (text, why) = explained(server, &scene.client.id, service);
    assert!(
        why["verdict"] == false
            && text.contains(&format!(
                "nobody hosts it since {since}, the last host was {}",
                other.name
            )),
        "{text}"
    );
    let dialer = run(async { scene.dialler(Options::GO).await });
    run(async { dialer.0.dial(&dialer.1).await.err().unwrap() });
    let failures = hosting(server, service)["failures"].clone();
    assert_eq!(
        (
            &failures[0]["reasons"][0]["fault"],
            failures[0].get("identity")
        ),
        (&"no-host".into(), None),
        "{failures:#}"
    );

    // One is back.
    let _back = run(scene.hosted(Options::GO));
    assert_eq!(state(server, service), "hosted");
    assert!(needing(server, "unhostedServices").is_empty());
    assert_eq!(
        explained(server, &scene.client.id, service).1["verdict"],
        true
    );

    // An outage of a disabled router.
    server
        .admin
        .patch("/edge-routers/built-in", json!({ "disabled": true }))
        .expect(200);
    assert!(soon(|| state(server, service) == "unhosted"));
    server
        .admin
        .delete(&format!("/services/{service}"))
        .expect(200);
    assert!(needing(server, "unhostedServices").is_empty());
}

async fn dial_refused(sdk: &Sdk, token: &str) -> String {
    sdk.dial(token).await.err().unwrap().text
}

#[test]
fn a_hung_host_is_no_yes() {
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.metrics.listen = Some(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    });
    let scene = Scene::on(server, false);
    let (server, service) = (&scene.server, scene.service.as_str());
    let (mut host, dialer, token) = run(async {
        let host = scene.hosted(Options::GO).await;
        let (dialer, token) = scene.dialler(Options::GO).await;
        (host, dialer, token)
    });
    assert_eq!(
        explained(server, &scene.client.id, service).1["verdict"],
        true
    );

    // It is connected and binds the service, and answers no dial.
    let text = run(dial_refused(&dialer, &token));
    assert_eq!(text, "the host did not answer in time");
    let (explanation, why) = explained(server, &scene.client.id, service);
    assert!(why["verdict"] == false && why["allowed"] == true, "{why:#}");
    let whats: Vec<&str> = why["obstacles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["what"].as_str().unwrap())
        .collect();
    assert_eq!(whats, ["dialsFail"]);
    assert_eq!(
        (
            &why["hosts"][0]["failures"]["times"],
            &why["hosts"][0]["failures"]["reasons"][0]["fault"]
        ),
        (&1.into(), &"timeout".into())
    );
    assert!(
        explanation.starts_with("may, but cannot now")
            && explanation.contains("the host did not answer in time"),
        "{explanation}"
    );
    assert!(
        explanation.contains(&format!("{}: the last dial failed at ", scene.host.name)),
        "{explanation}"
    );
    let shown = hosting(server, service);
    assert_eq!(
        (&shown["state"], &shown["failures"][0]["identity"]["id"]),
        (&"failing".into(), &scene.host.id.as_str().into()),
        "{shown:#}"
    );
    assert_eq!(
        (
            needing(server, "failingServices"),
            needing(server, "unhostedServices")
        ),
        (vec![service.to_owned()], vec![])
    );
    let of = |series: &str| metrics::value(&metrics::text(server), series);
    assert_eq!(
        of("overkeep_dial_failures_total{kind=\"timeout\"}"),
        Some(1.0)
    );
    assert_eq!(
        (
            of("overkeep_services{kind=\"failing\"}"),
            of("overkeep_services{kind=\"hosted\"}")
        ),
        (Some(1.0), Some(0.0))
    );

    // Then it refuses, with a long text that is kept in part.
    drop(run(host.dialed()));
    let refusal = format!("the backend is down {}", "x".repeat(5000));
    let (text, ()) = run(async {
        tokio::join!(dial_refused(&dialer, &token), async {
            let dial = host.dialed().await;
            host.refuse(&dial, &refusal).await;
        })
    });
    assert!(text.starts_with("the backend is down"), "{text}");
    let shown = hosting(server, service);
    let reasons: Vec<&str> = shown["failures"][0]["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["fault"].as_str().unwrap())
        .collect();
    assert_eq!(
        (reasons, &shown["failures"][0]["times"]),
        (vec!["refused", "timeout"], &2.into()),
        "{shown:#}"
    );
    assert!(
        shown["failures"][0]["reasons"][0]["text"]
            .as_str()
            .unwrap()
            .len()
            == 200
    );
    assert_eq!(
        of("overkeep_dial_failures_total{kind=\"refused\"}"),
        Some(1.0)
    );

    // A dial that succeeds ends it; the reasons stay.
    let (client, _accepted) = run(async { tokio::join!(dialer.dial(&token), host.accept()) });
    client.unwrap();
    assert_eq!(
        explained(server, &scene.client.id, service).1["verdict"],
        true
    );
    let shown = hosting(server, service);
    assert_eq!(
        (&shown["state"], &shown["failures"][0]["times"]),
        (&"hosted".into(), &0.into())
    );
    assert!(
        shown["failures"][0]["succeeded"].is_string()
            && needing(server, "failingServices").is_empty()
    );

    // A host that fails beside one that does not is told, and the answer is yes.
    run(async {
        tokio::join!(dial_refused(&dialer, &token), async {
            let dial = host.dialed().await;
            host.refuse(&dial, "no").await;
        })
    });
    let other = Member::new(server, "other");
    server.service_policy(
        "Bind",
        &[&format!("@{}", other.id)],
        &[&format!("@{service}")],
    );
    let _second = run(async {
        other
            .connect(server, Options::GO)
            .await
            .host(&other.session(service, "Bind"))
            .await
            .unwrap()
    });
    let (explanation, why) = explained(server, &scene.client.id, service);
    assert!(
        why["verdict"] == true
            && explanation.contains(&format!("{}: the last dial failed at ", scene.host.name)),
        "{explanation}"
    );

    // What failed before a host bound anew says nothing about it.
    run(host.unbind());
    let _anew = run(async {
        host.sdk
            .host(&scene.host.session(service, "Bind"))
            .await
            .unwrap()
    });
    assert!(
        !explained(server, &scene.client.id, service)
            .0
            .contains("the last dial failed")
    );
}

#[test]
fn comings_and_goings_are_grouped() {
    let clock = Clock::manual(Clock::system().now());
    let server = TestServer::with(clock, |config| config.router.enabled = true);
    let scene = Scene::on(server, false);
    let (server, service) = (&scene.server, scene.service.as_str());
    let later = |seconds| {
        server.clock.advance(Duration::from_secs(seconds));
        server.run_due_jobs();
    };
    let of_service = format!("id = \"{service}\"");
    let host = run(scene.hosted(Options::GO));
    later(70);
    let found = rows(server, &of_service);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(
        (
            &found[0]["action"],
            names(&found[0]["before"]["hosts"]).len()
        ),
        (&"connect".into(), 0)
    );
    assert_eq!(
        names(&found[0]["after"]["hosts"]),
        [scene.host.name.as_str()]
    );

    // A host that is back soon leaves no row.
    run(host.sdk.leave());
    assert!(soon(|| state(server, service) == "unhosted"));
    let host = run(scene.hosted(Options::GO));
    later(70);
    assert_eq!(rows(server, &of_service).len(), 1);

    run(host.sdk.leave());
    assert!(soon(|| state(server, service) == "unhosted"));
    let since = hosting(server, service)["since"].clone();
    later(70);
    let found = rows(server, &of_service);
    assert_eq!(
        (found.len(), &found[0]["action"], &found[0]["after"]["at"]),
        (2, &"disconnect".into(), &since),
        "{found:#?}"
    );
    assert!(
        names(&found[0]["after"]["hosts"]).is_empty()
            && names(&found[0]["before"]["hosts"]) == [scene.host.name.as_str()]
    );

    // Many services at once have 16 rows.
    let services: Vec<String> = (0..40)
        .map(|_| server.service(&fresh("many"), json!({ "roleAttributes": ["many"] })))
        .collect();
    server.service_policy("Bind", &[&format!("@{}", scene.host.id)], &["#many"]);
    let sdk = run(scene.host.connect(server, Options::GO));
    for service in &services {
        run(async {
            sdk.host(&scene.host.session(service, "Bind"))
                .await
                .unwrap()
        });
    }
    later(70);
    let found = rows(server, "true");
    assert_eq!(found.len(), 2 + 16);
    let shared = found.iter().find(|row| row["id"] == "").unwrap();
    assert_eq!(
        (
            &shared["after"]["services"],
            &shared["after"]["unhosted"],
            &shared["action"]
        ),
        (&25.into(), &0.into(), &"connect".into())
    );
    assert_eq!(shared["after"]["names"].as_array().unwrap().len(), 20);
}

#[test]
fn absence_outlives_a_restart() {
    let clock = Clock::manual(Clock::system().now());
    let enable = |config: &mut overkeep::testing::config::Config| config.router.enabled = true;
    let server = TestServer::with(clock.clone(), enable);
    let gone = Scene::on(server, false);
    let later = |server: &TestServer, seconds| {
        server.clock.advance(Duration::from_secs(seconds));
        server.run_due_jobs();
    };
    // One service loses its host, one keeps it until the stop, one never had one.
    let [kept, never] = [(); 2].map(|()| gone.server.service(&fresh("service"), json!({})));
    gone.server.service_policy(
        "Bind",
        &[&format!("@{}", gone.host.id)],
        &[&format!("@{kept}")],
    );
    let host = run(gone.hosted(Options::GO));
    let sdk = run(gone.host.connect(&gone.server, Options::GO));
    let _kept = run(async { sdk.host(&gone.host.session(&kept, "Bind")).await.unwrap() });
    later(&gone.server, 70);
    run(host.unbind());
    assert!(soon(|| state(&gone.server, &gone.service) == "unhosted"));
    let since = hosting(&gone.server, &gone.service)["since"].clone();
    later(&gone.server, 70);
    let Scene {
        server,
        service,
        host,
        ..
    } = gone;
    let server = server.restarted(enable);
    server.run_due_jobs();
    let was_gone = hosting(&server, &service);
    assert_eq!(
        (
            &was_gone["state"],
            &was_gone["since"],
            was_gone.get("orEarlier")
        ),
        (&"unhosted".into(), &since, None),
        "{was_gone:#}"
    );
    let started = server.clock.now().to_string();
    for unknown in [&kept, &never] {
        let shown = hosting(&server, unknown);
        assert_eq!(
            (&shown["state"], &shown["since"], &shown["orEarlier"]),
            (&"unhosted".into(), &json!(started), &true.into()),
            "{shown:#}"
        );
        assert!(
            shown["text"]
                .as_str()
                .unwrap()
                .ends_with(&format!("since the start at {started} or earlier")),
            "{shown:#}"
        );
    }
    assert_eq!(
        hosting(&server, &kept)["lastHost"]["name"],
        host.name.as_str()
    );
    // Hosts have a minute to connect again.
    assert_eq!(needing(&server, "unhostedServices"), [service.as_str()]);
    later(&server, 61);
    let mut found = needing(&server, "unhostedServices");
    found.sort();
    let mut all = [service.clone(), kept.clone(), never.clone()];
    all.sort();
    assert_eq!(found, all);
    // The one that is not back has a row, which does not pretend to know when it left.
    later(&server, 70);
    let found = rows(&server, &format!("id = \"{kept}\""));
    assert_eq!(
        (&found[0]["action"], &found[0]["after"]["orEarlier"]),
        (&"disconnect".into(), &true.into()),
        "{found:#?}"
    );
    assert_eq!(rows(&server, &format!("id = \"{never}\"")).len(), 0);
    assert_eq!(
        rows(&server, &format!("id = \"{service}\"")).len(),
        2,
        "what the history says already is not said again"
    );
}
