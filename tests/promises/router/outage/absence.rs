//! How absences are grouped and kept.

use super::*;

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
    let enable = |config: &mut model::config::Config| config.router.enabled = true;
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
