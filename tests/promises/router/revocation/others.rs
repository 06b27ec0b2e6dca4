//! Circuits that end, and those that do not.

use super::*;

#[test]
fn circuits_end_with_the_credential() {
    ends(Ends::ClientsChannel, |scene, _| {
        let of_client = format!("identity = \"{}\"", scene.client.id);
        let credential = scene
            .server
            .admin
            .list("/authenticators", &of_client, "")
            .expect(200)
            .each("id")[0]
            .to_owned();
        delete(scene, &format!("/authenticators/{credential}"));
    });
}

#[test]
fn disabled_router_serves_nobody() {
    let scene = Scene::new();
    let set = |is_disabled: bool| {
        drop(
            scene
                .server
                .admin
                .patch("/edge-routers/built-in", json!({ "disabled": is_disabled }))
                .expect(200),
        )
    };
    run(async {
        let (client, host, _listener) = scene.connected(Options::GO).await;
        set(true);
        client.sdk.closed().await;
        host.sdk.closed().await;
        assert!(
            scene
                .client
                .try_connect(&scene.server, Options::GO)
                .await
                .is_err()
        );
        set(false);
        scene.connected(Options::GO).await;
    });
    assert!(soon(|| scene
        .server
        .admin
        .get("/edge-routers/built-in")
        .expect(200)
        .data()["isOnline"]
        == true));
}

#[test]
fn unrelated_changes_end_no_circuit() {
    let scene = Scene::new();
    run(async {
        let (mut client, mut host, mut listener) = scene.connected(Options::GO).await;
        let admin = &scene.server.admin;
        admin
            .patch(
                &format!("/identities/{}", scene.client.id),
                json!({ "name": fresh("renamed"), "roleAttributes": ["more"] }),
            )
            .expect(200);
        admin
            .patch(
                &format!("/services/{}", scene.service),
                json!({ "name": fresh("renamed"), "roleAttributes": ["more"] }),
            )
            .expect(200);
        let second_policy = scene.server.service_policy("Dial", &["#all"], &["#all"]);
        admin
            .delete(&format!("/service-policies/{}", scene.dial))
            .expect(200);
        let replacement = scene.server.service_policy(
            "Dial",
            &[&format!("@{}", scene.client.id)],
            &[&format!("@{}", scene.service)],
        );
        admin
            .delete(&format!("/service-policies/{second_policy}"))
            .expect(200);
        admin
            .patch(
                &format!("/service-policies/{replacement}"),
                json!({ "semantic": "AllOf" }),
            )
            .expect(200);
        admin
            .post("/posture-checks", json!({ "name": fresh("check"), "typeId": "DOMAIN", "domains": ["x"], "roleAttributes": ["x"] }))
            .expect(201);
        let certificate = format!("/current-identity/authenticators/{}", {
            let own = scene
                .client
                .caller
                .get("/current-identity/authenticators")
                .expect(200);
            own.each("id")[0].to_owned()
        });
        let key = crate::harness::Key::new();
        scene
            .client
            .caller
            .post(
                &format!("{certificate}/extend"),
                json!({ "clientCertCsr": key.request() }),
            )
            .expect(200);
        client.send(b"untouched").await;
        assert_eq!(host.data().await, b"untouched");
        // Reviews run one after the other: when a later one has closed something, all earlier ones
        // are done.
        assert!(listener.is_idle());
        tokio::time::sleep(Duration::from_millis(50)).await;
        host.send(b"both ways").await;
        assert_eq!(client.data().await, b"both ways");
    });
}

#[test]
fn racing_dials_do_not_slip_through() {
    let scene = Scene::new();
    run(async {
        let host = scene.hosted(Options::GO).await;
        tokio::spawn(host.echo());
        for _ in 0..5 {
            let (sdk, token) = scene.dialler(Options::GO).await;
            let policy = scene
                .server
                .admin
                .list("/service-policies", "type = 1", "")
                .expect(200)
                .each("id")
                .first()
                .map(ToString::to_string);
            let policy = policy.unwrap_or_else(|| scene.dial.clone());
            let dialing = {
                let (sdk, token) = (sdk.clone(), token.clone());
                tokio::spawn(async move {
                    let mut open = Vec::new();
                    loop {
                        match sdk.dial(&token).await {
                            Ok(conn) => open.push(conn),
                            Err(_) => return open,
                        }
                    }
                })
            };
            tokio::time::sleep(Duration::from_millis(20)).await;
            scene
                .server
                .admin
                .delete(&format!("/service-policies/{policy}"))
                .expect(200);
            let mut open = tokio::time::timeout(PATIENCE, dialing)
                .await
                .unwrap()
                .unwrap();
            for conn in &mut open {
                while !matches!(conn.next().await, Event::Closed(_) | Event::Lost) {}
            }
            assert!(soon(|| scene.server.router().circuits().is_empty()));
            scene.server.service_policy(
                "Dial",
                &[&format!("@{}", scene.client.id)],
                &[&format!("@{}", scene.service)],
            );
        }
    });
}
