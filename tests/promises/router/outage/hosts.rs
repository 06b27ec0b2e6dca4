//! Hosts that leave or hang.

use super::*;

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
    let at: model::clock::Timestamp = since.parse().unwrap();
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
