//! Terminators, and when they end.

use super::*;

#[test]
fn terminators_live_while_hosted() {
    let scene = Scene::new();
    let terminators = |filter: &str| {
        scene
            .server
            .admin
            .list("/terminators", filter, "")
            .expect(200)
    };
    run(async {
        let sdk = scene.host.connect(&scene.server, Options::GO).await;
        let token = scene.host.session(&scene.service, "Bind");
        let host = sdk
            .host_with(&token, |bind| {
                bind.u16(key::COST, 12).bytes(key::PRECEDENCE, &[1])
            })
            .await
            .unwrap();
        let shown = terminators("binding = \"edge\"");
        let one = &shown.data()[0];
        assert_eq!(
            (shown.total(), &one["address"], &one["routerId"]),
            (1, &one["id"], &json!("built-in"))
        );
        assert_eq!(
            (&one["router"]["name"], &one["serviceId"]),
            (&json!("built-in"), &json!(scene.service))
        );
        assert_eq!(
            (&one["cost"], &one["precedence"], &one["dynamicCost"]),
            (&json!(12), &json!("required"), &json!(0))
        );
        assert_eq!(one["identity"], "");
        assert_eq!(
            terminators(&format!("hostId = \"{}\"", scene.host.id)).total(),
            1
        );
        let service = format!("/services/{}/terminators", scene.service);
        assert_eq!(scene.server.admin.get(&service).expect(200).total(), 1);

        let answer = host.unbind().await.unwrap();
        assert_eq!(
            (answer.content_type(), answer.u32(key::CONNECTION)),
            (kind::STATE_CLOSED, Some(host.id))
        );
        assert!(soon(|| terminators("true").total() == 0));
        // Binds again with the same id.
        sdk.host_as(host.id, &token, |bind| bind).await.unwrap();
        assert_eq!(terminators("true").total(), 1);
        sdk.leave().await;
        assert!(soon(|| terminators("true").total() == 0));
    });
    let history = scene
        .server
        .admin
        .at(crate::harness::Base::Overkeep)
        .list("/history", "kind = \"terminator\"", "")
        .expect(200);
    assert_eq!(
        history.total(),
        0,
        "terminators of connections are not in the history"
    );
}

#[test]
fn none_is_left_after_a_start() {
    let scene = Scene::new();
    let _sdk = run(async {
        let sdk = scene.host.connect(&scene.server, Options::C).await;
        let token = scene.host.session(&scene.service, "Bind");
        for _ in 0..3 {
            sdk.host(&token).await.unwrap();
        }
        sdk
    });
    let made = json!({ "address": "tcp:localhost:80", "binding": "transport", "router": "built-in", "service": scene.service });
    let permanent = scene
        .server
        .admin
        .post("/terminators", made)
        .expect(201)
        .id();
    let all = scene.server.admin.get("/terminators").expect(200);
    assert_eq!(all.total(), 4);
    // As after a kill: the records are still in the file when it is opened again.
    let server = scene.server.killed(|config| config.router.enabled = true);
    assert_eq!(
        server.admin.get("/terminators").expect(200).each("id"),
        [permanent.as_str()]
    );
}

#[test]
fn rebinding_keeps_the_terminator() {
    let scene = Scene::new();
    let ids = || {
        scene
            .server
            .admin
            .get("/terminators")
            .expect(200)
            .each("id")
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    run(async {
        let token = scene.host.session(&scene.service, "Bind");
        let listener = |bind: Builder| bind.bytes(key::LISTENER, &[0xff, 0, 1]);
        let one = scene.host.connect(&scene.server, Options::GO).await;
        let mut host = one.host_with(&token, listener).await.unwrap();
        let known = ids();
        // The same bind again on the same channel.
        one.host_as(host.id, &token, listener).await.unwrap();
        assert_eq!(ids(), known);
        host = one.host_as(host.id, &token, listener).await.unwrap();
        // On another channel: the old listener is told.
        let other = scene.host.connect(&scene.server, Options::GO).await;
        let mut taken_over = other.host_with(&token, listener).await.unwrap();
        assert_eq!(host.ended().await.text, "the listener was bound again");
        assert_eq!(ids(), known);
        let (sdk, dial) = scene.dialler(Options::GO).await;
        let (connected, _accepted) = tokio::join!(sdk.dial(&dial), taken_over.accept());
        connected.unwrap();
        one.leave().await;
        one.closed().await;
        assert_eq!(ids(), known);
    });
}

#[test]
fn rebinding_without_id_replaces() {
    let scene = Scene::new();
    let total = || scene.server.admin.get("/terminators").expect(200).total();
    run(async {
        let token = scene.host.session(&scene.service, "Bind");
        let before = scene.host.connect(&scene.server, Options::GO).await;
        before.host(&token).await.unwrap();
        // Two binds on one channel are two terminators.
        before.host(&token).await.unwrap();
        assert_eq!(total(), 2);
        let now = scene.host.connect(&scene.server, Options::GO).await;
        let mut host = now.host(&token).await.unwrap();
        assert!(soon(|| total() == 1));
        let (sdk, dial) = scene.dialler(Options::GO).await;
        let (connected, _accepted) = tokio::join!(sdk.dial(&dial), host.accept());
        connected.unwrap();
    });
}

#[test]
fn deleted_terminator_is_not_dialed() {
    let scene = Scene::new();
    run(async {
        let host = scene.hosted(Options::GO).await;
        let id = scene
            .server
            .admin
            .get("/terminators")
            .expect(200)
            .each("id")[0]
            .to_owned();
        scene
            .server
            .admin
            .delete(&format!("/terminators/{id}"))
            .expect(200);
        let (sdk, token) = scene.dialler(Options::GO).await;
        assert!(
            sdk.dial(&token)
                .await
                .err()
                .unwrap()
                .text
                .ends_with("has no terminators")
        );
        assert!(!host.sdk.is_closed());
        host.unbind().await.unwrap();
    });
}

#[test]
fn services_may_have_several_hosts() {
    let scene = Scene::new();
    let other = Member::new(&scene.server, "other");
    scene.server.service_policy(
        "Bind",
        &[&format!("@{}", other.id)],
        &[&format!("@{}", scene.service)],
    );
    run(async {
        let mut one = scene.hosted(Options::GO).await;
        let sdk = other.connect(&scene.server, Options::C).await;
        let mut two = sdk
            .host(&other.session(&scene.service, "Bind"))
            .await
            .unwrap();
        let (client, token) = scene.dialler(Options::GO).await;
        // Load is shared: an open circuit raises the cost of its host.
        let (first, second) = tokio::join!(
            async {
                (
                    client.dial(&token).await.unwrap(),
                    client.dial(&token).await.unwrap(),
                )
            },
            async { tokio::join!(one.accept(), two.accept()) }
        );
        drop((first, second));
        one.sdk.leave().await;
        one.sdk.closed().await;
        let name = fresh("still");
        let (third, mut accepted) = tokio::join!(client.dial(&token), two.accept());
        third.unwrap().send(name.as_bytes()).await;
        assert_eq!(accepted.next().await, Event::Data(name.into_bytes()));
    });
}
