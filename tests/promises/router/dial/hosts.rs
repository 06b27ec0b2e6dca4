//! The host that a dial gets, and the next one.

use super::*;

/// A second host of the service on its own channel, which is asked after the first.
async fn second(scene: &Scene) -> Host {
    let sdk = scene.host.connect(&scene.server, Options::GO).await;
    sdk.host_with(&scene.host.session(&scene.service, "Bind"), |bind| {
        bind.u16(key::COST, 900).bytes(key::LISTENER, b"other")
    })
    .await
    .unwrap()
}

#[test]
fn next_host_follows_a_refusal() {
    let scene = Scene::new();
    run(async {
        let mut one = scene.hosted(Options::GO).await;
        let (sdk, token) = scene.dialler(Options::GO).await;
        let (alone, ()) = tokio::join!(sdk.dial(&token), async {
            let dial = one.dialed().await;
            one.refuse(&dial, "no such port").await;
        });
        assert_eq!(alone.err().unwrap().text, "no such port");
        let cost = |host: &Scene| {
            host.server.admin.get("/terminators").expect(200).data()[0]["dynamicCost"].clone()
        };
        assert_eq!(cost(&scene), 20, "a failure raises the cost of the host");

        let mut other = second(&scene).await;
        let (connected, accepted) = tokio::join!(sdk.dial(&token), async {
            let dial = one.dialed().await;
            one.refuse(&dial, "still none").await;
            other.accept().await
        });
        connected.unwrap().send(b"to the other").await;
        assert_eq!({ accepted }.data().await, b"to the other");

        // A host may also close the connection that it is asked to accept.
        let (both, ()) = tokio::join!(sdk.dial(&token), async {
            let dial = one.dialed().await;
            let id = dial.u32(key::ROUTER_CONNECTION).unwrap();
            one.sdk
                .send(
                    Builder::new(kind::STATE_CLOSED)
                        .u32(key::CONNECTION, id)
                        .body(b"closed at once"),
                )
                .await
                .unwrap();
            let dial = other.dialed().await;
            other.refuse(&dial, "").await;
        });
        assert_eq!(both.err().unwrap().text, "the host refused the dial");
    });
}

#[test]
fn next_host_follows_a_timeout() {
    let scene = Scene::new();
    // Without another host.
    let service = scene
        .server
        .service(&fresh("silent"), json!({ "encryptionRequired": false }));
    for (member, right) in [(&scene.host, "Bind"), (&scene.client, "Dial")] {
        scene.server.service_policy(
            right,
            &[&format!("@{}", member.id)],
            &[&format!("@{service}")],
        );
    }
    run(async {
        for options in [Options::GO, Options::C] {
            let mut silent = scene.hosted(options).await;
            let mut alone = silent
                .sdk
                .host(&scene.host.session(&service, "Bind"))
                .await
                .unwrap();
            let mut other = second(&scene).await;
            let (sdk, token) = scene.dialler(Options::GO).await;
            let unanswered = scene.client.session(&service, "Dial");
            let (connected, (dial, accepted), failed, ()) = tokio::join!(
                sdk.dial(&token),
                async { (silent.dialed().await, other.accept().await) },
                sdk.dial(&unanswered),
                async {
                    alone.dialed().await;
                    // The channel is served meanwhile.
                    sdk.ask(Builder::new(content::PING).empty()).await.unwrap();
                    assert!(scene.server.router().circuits().is_empty());
                }
            );
            let (_client, _accepted) = (connected.unwrap(), accepted);
            assert_eq!(
                failed.err().unwrap().text,
                "the host did not answer in time"
            );
            alone.unbind().await;
            let id = dial.u32(key::ROUTER_CONNECTION).unwrap_or(99);
            let late = Builder::reply(kind::DIAL_SUCCESS, &dial)
                .u32(key::CONNECTION, silent.id)
                .body(&id.to_le_bytes());
            silent.sdk.send(late).await.unwrap();
            let closed = silent.sdk.other().await.unwrap();
            assert_eq!(
                (closed.content_type(), closed.u32(key::CONNECTION)),
                (kind::STATE_CLOSED, Some(id))
            );
            silent.unbind().await;
            other.unbind().await;
        }
    });
}

#[test]
fn next_host_follows_a_disconnect() {
    let scene = Scene::new();
    run(async {
        let mut leaving = scene.hosted(Options::GO).await;
        let mut other = second(&scene).await;
        let (sdk, token) = scene.dialler(Options::GO).await;
        let (connected, _accepted) = tokio::join!(sdk.dial(&token), async {
            leaving.dialed().await;
            leaving.sdk.leave().await;
            other.accept().await
        });
        connected.unwrap();
    });
}

#[test]
fn unusable_ids_count_as_refusals() {
    let scene = Scene::new();
    run(async {
        for options in [Options::GO, Options::C] {
            let mut host = scene.hosted(options).await;
            let (sdk, token) = scene.dialler(Options::GO).await;
            let (refused, ()) = tokio::join!(sdk.dial(&token), async {
                let dial = host.dialed().await;
                let answer = Builder::reply(kind::DIAL_SUCCESS, &dial)
                    .u32(key::CONNECTION, host.id)
                    .body(&host.id.to_le_bytes());
                host.sdk.send(answer).await.unwrap();
            });
            assert!(refused.err().unwrap().text.contains("cannot use"));
            assert!(host.unbind().await.is_some(), "the listener is still there");
        }
    });
}

#[test]
fn hosts_are_chosen_by_cost() {
    let scene = Scene::new();
    run(async {
        let sdk = scene.host.connect(&scene.server, Options::GO).await;
        let token = scene.host.session(&scene.service, "Bind");
        // Some SDKs send four bytes for cost and precedence.
        let expensive = |bind: Builder| {
            bind.u32(key::COST, 700)
                .u32(key::PRECEDENCE, 1)
                .bytes(key::LISTENER, b"expensive")
        };
        let cheap = |bind: Builder| bind.u16(key::COST, 1).bytes(key::LISTENER, b"cheap");
        let named = |bind: Builder| {
            bind.text(key::INSTANCE, "printer")
                .bytes(key::INSTANCE_SECRET, b"secret")
                .bytes(key::LISTENER, b"named")
        };
        let (mut expensive, mut cheap, mut named) = (
            sdk.host_with(&token, expensive).await.unwrap(),
            sdk.host_with(&token, cheap).await.unwrap(),
            sdk.host_with(&token, named).await.unwrap(),
        );
        let shown = scene
            .server
            .admin
            .list("/terminators", "instanceId = \"printer\"", "")
            .expect(200);
        assert_eq!(
            (shown.total(), &shown.data()[0]["identity"]),
            (1, &json!("printer"))
        );
        let client = scene.client.connect(&scene.server, Options::GO).await;
        let dial = scene.client.session(&scene.service, "Dial");
        let (_one, _end) = tokio::join!(client.dial(&dial), expensive.accept());

        // Cost and precedence set by an administrator take precedence.
        let required = scene
            .server
            .admin
            .list("/terminators", "precedence = \"required\"", "");
        drop(required);
        let all = scene.server.admin.get("/terminators").expect(200);
        let id = all
            .data()
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["precedence"] == "required")
            .unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned();
        scene
            .server
            .admin
            .patch(
                &format!("/terminators/{id}"),
                json!({ "precedence": "failed" }),
            )
            .expect(200);
        let (_two, _end) = tokio::join!(client.dial(&dial), cheap.accept());

        let wanted =
            |instance: &'static str| move |connect: Builder| connect.text(key::INSTANCE, instance);
        let (_three, _end) =
            tokio::join!(client.dial_with(&dial, wanted("printer")), named.accept());
        let no_host = client
            .dial_with(&dial, wanted("scanner"))
            .await
            .err()
            .unwrap();
        assert_eq!(
            no_host.text,
            format!(
                "service {} has no terminators for instanceId scanner",
                scene.service
            )
        );
        assert!(expensive.is_idle() && cheap.is_idle() && named.is_idle());

        let other = Member::new(&scene.server, "other");
        scene.server.service_policy(
            "Bind",
            &[&format!("@{}", other.id)],
            &[&format!("@{}", scene.service)],
        );
        let others = other.connect(&scene.server, Options::GO).await;
        let token = other.session(&scene.service, "Bind");
        let bind = |secret: &'static [u8]| {
            move |bind: Builder| {
                bind.text(key::INSTANCE, "printer")
                    .bytes(key::INSTANCE_SECRET, secret)
            }
        };
        let wrong = others
            .host_with(&token, bind(b"guess"))
            .await
            .err()
            .unwrap();
        assert_eq!(wrong.code, Some(13), "{}", wrong.text);
        others.host_with(&token, bind(b"secret")).await.unwrap();
    });
}

#[test]
fn sticky_services_return_to_their_host() {
    let server = TestServer::with_router();
    let scene = Scene::on(server, false);
    scene
        .server
        .admin
        .patch(
            &format!("/services/{}", scene.service),
            json!({ "terminatorStrategy": "sticky" }),
        )
        .expect(200);
    run(async {
        let mut cheap = scene.hosted(Options::GO).await;
        let mut expensive = second(&scene).await;
        let (sdk, token) = scene.dialler(Options::GO).await;
        let (first, _end) = tokio::join!(sdk.dial(&token), cheap.accept());
        let first = first.unwrap();
        let stickiness = first.made_by.header(key::STICKINESS).unwrap().to_vec();
        let all = scene.server.admin.get("/terminators").expect(200);
        let expensive_id = all
            .data()
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["cost"] == 900)
            .unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_ne!(stickiness, expensive_id.as_bytes());
        let (again, _end) = tokio::join!(
            sdk.dial_with(&token, |connect| connect
                .text(key::STICKINESS, &expensive_id)),
            expensive.accept()
        );
        assert_eq!(
            again.unwrap().made_by.text(key::STICKINESS),
            Some(expensive_id.as_str())
        );
        // If the host has disconnected, the best of the others is used.
        expensive.unbind().await;
        let (other, _end) = tokio::join!(
            sdk.dial_with(&token, |connect| connect
                .text(key::STICKINESS, &expensive_id)),
            cheap.accept()
        );
        assert_eq!(
            other.unwrap().made_by.header(key::STICKINESS),
            Some(&stickiness[..])
        );
    });
}

#[test]
fn replies_without_dials_are_ignored() {
    let scene = Scene::new();
    run(async {
        let (mut client, mut host, listener) = scene.connected(Options::GO).await;
        let forged = Builder::new(kind::DIAL_SUCCESS)
            .u32(key::CONNECTION, listener.id)
            .i32(common::REPLY_FOR, 1)
            .body(&host.id.to_le_bytes());
        host.sdk.send(forged).await.unwrap();
        host.sdk
            .send(
                Builder::new(kind::DIAL_FAILED)
                    .i32(common::REPLY_FOR, 2)
                    .empty(),
            )
            .await
            .unwrap();
        client.send(fresh("untouched").as_bytes()).await;
        assert!(host.data().await.starts_with(b"untouched"));
        host.send(b"back").await;
        assert_eq!(client.data().await, b"back");
    });
}
