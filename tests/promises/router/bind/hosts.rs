//! What hosts learn and change.

use super::*;

#[test]
fn hosts_learn_when_dialable() {
    let scene = Scene::new();
    run(async {
        let sdk = scene.host.connect(&scene.server, Options::GO).await;
        let token = scene.host.session(&scene.service, "Bind");
        let mut host = sdk
            .host_with(&token, |bind| bind.flag(key::BIND_SUCCESS, true))
            .await
            .unwrap();
        let message = host.message().await.unwrap();
        assert_eq!(
            (message.content_type(), message.u32(key::CONNECTION)),
            (kind::BIND_SUCCESS, Some(host.id))
        );
        sdk.host(&token).await.unwrap();
        assert!(sdk.ask(Builder::new(content::PING).empty()).await.is_some() && host.is_idle());
    });
}

#[test]
fn bind_refusals_are_delayed() {
    const ROUNDS: usize = 3;
    let scene = Scene::new();
    run(async {
        let sdk = scene.host.connect(&scene.server, Options::GO).await;
        let token = scene.host.session(&scene.service, "Bind");
        let (mut accepted, mut refused) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            sdk.host(&token).await.unwrap();
            accepted = accepted.min(start.elapsed());
            let start = Instant::now();
            let refusal = sdk.host("nonsense").await.err().unwrap();
            refused = refused.min(start.elapsed());
            assert_eq!(
                (refusal.text.as_str(), refusal.code),
                ("Invalid Session", Some(3))
            );
        }
        // An accepted Bind writes a terminator to the file, so that a refusal without a delay would
        // be the faster one.
        assert!(
            refused > 10 * accepted,
            "a Bind was refused after {refused:?}; one was accepted after {accepted:?}"
        );
        // The delay holds up nothing else on the channel.
        let (binding, pings) = (sdk.clone(), async {
            let start = Instant::now();
            for _ in 0..10 {
                sdk.ask(Builder::new(content::PING).empty()).await.unwrap();
            }
            start.elapsed()
        });
        let (_, pings) = tokio::join!(binding.host("nonsense"), pings);
        assert!(
            pings < refused,
            "ten probes took {pings:?} beside a refusal"
        );
        let dial = scene.client.session(&scene.service, "Dial");
        let client = scene.client.connect(&scene.server, Options::GO).await;
        assert_eq!(client.host(&dial).await.err().unwrap().code, Some(4));
    });
}

#[test]
fn hosts_update_cost_and_precedence() {
    let scene = Scene::new();
    run(async {
        let host = scene.hosted(Options::GO).await;
        let update = |cost: u16| {
            Builder::new(kind::UPDATE_BIND)
                .u32(key::CONNECTION, host.id)
                .u16(key::COST, cost)
                .bytes(key::PRECEDENCE, &[2])
        };
        host.sdk
            .send(update(77).body(host.token.as_bytes()))
            .await
            .unwrap();
        let shown = || scene.server.admin.get("/terminators").expect(200).data()[0].clone();
        assert!(soon(
            || shown()["cost"] == 77 && shown()["precedence"] == "failed"
        ));
        // A session of another identity has no access to the terminator.
        host.sdk.send(update(78).body(b"nonsense")).await.unwrap();
        host.sdk
            .send(
                Builder::new(kind::HEALTH_EVENT)
                    .u32(key::CONNECTION, host.id)
                    .flag(1013, false)
                    .body(host.token.as_bytes()),
            )
            .await
            .unwrap();
        host.sdk
            .ask(Builder::new(content::PING).empty())
            .await
            .unwrap();
        assert_eq!(shown()["cost"], 77);
        // Some SDKs send four bytes for each; what is too short or unknown changes nothing.
        let update = Builder::new(kind::UPDATE_BIND)
            .u32(key::CONNECTION, host.id)
            .bytes(key::COST, &[5]);
        host.sdk
            .send(update.u32(key::PRECEDENCE, 1).body(host.token.as_bytes()))
            .await
            .unwrap();
        assert!(soon(|| shown()["precedence"] == "required"));
        assert_eq!(shown()["cost"], 77);
        let update = Builder::new(kind::UPDATE_BIND)
            .u32(key::CONNECTION, host.id)
            .u32(key::COST, 78);
        host.sdk
            .send(
                update
                    .bytes(key::PRECEDENCE, &[9])
                    .body(host.token.as_bytes()),
            )
            .await
            .unwrap();
        assert!(soon(|| shown()["cost"] == 78));
        assert_eq!(shown()["precedence"], "required");
    });
}

#[test]
fn many_updates_end_with_the_last() {
    let scene = Scene::new();
    run(async {
        let host = scene.hosted(Options::GO).await;
        let update = |cost: u16| {
            Builder::new(kind::UPDATE_BIND)
                .u32(key::CONNECTION, host.id)
                .u16(key::COST, cost)
                .body(host.token.as_bytes())
        };
        for cost in 1..=2000 {
            host.sdk.send(update(cost)).await.unwrap();
        }
        // Cost and precedence each keep the last value, whatever is being written meanwhile.
        let failed = Builder::new(kind::UPDATE_BIND)
            .u32(key::CONNECTION, host.id)
            .bytes(key::PRECEDENCE, &[2]);
        host.sdk
            .send(failed.body(host.token.as_bytes()))
            .await
            .unwrap();
        let shown = || scene.server.admin.get("/terminators").expect(200).data()[0].clone();
        assert!(
            soon(|| shown()["cost"] == 2000 && shown()["precedence"] == "failed"),
            "{}",
            shown()
        );
    });
}

#[test]
fn an_identity_hosts_a_bounded_number() {
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.router.max_binds = 16;
    });
    let scene = Scene::on(server, false);
    run(async {
        let token = scene.host.session(&scene.service, "Bind");
        let (first, second) = (
            scene.host.connect(&scene.server, Options::GO).await,
            scene.host.connect(&scene.server, Options::GO).await,
        );
        let mut hosts = Vec::new();
        for number in 0..16_u8 {
            let on = if number.is_multiple_of(2) {
                &first
            } else {
                &second
            };
            hosts.push(
                on.host_with(&token, |bind| bind.bytes(key::INSTANCE, &[b'a' + number]))
                    .await
                    .unwrap(),
            );
        }
        let refused = first.host(&token).await.err().unwrap();
        assert!(
            refused.text.contains("router.max-binds")
                && refused.structured.unwrap().contains("\"retryHint\":1")
        );
        let terminators = || {
            scene
                .server
                .admin
                .get("/terminators?limit=1")
                .expect(200)
                .total()
        };
        assert_eq!(
            (terminators(), scene.server.router().traffic().binds),
            (16, 16)
        );
        // A terminator that ends makes room for another, on any channel.
        hosts[0].unbind().await.unwrap();
        second
            .host_with(&token, |bind| bind.bytes(key::INSTANCE, b"z"))
            .await
            .unwrap();
        second.host(&token).await.err().unwrap();
    });
}

#[test]
fn an_instance_has_a_bounded_number() {
    let scene = Scene::new();
    run(async {
        let token = scene.host.session(&scene.service, "Bind");
        let sdk = scene.host.connect(&scene.server, Options::GO).await;
        let named = |bind: Builder| {
            bind.bytes(key::INSTANCE, b"one")
                .bytes(key::INSTANCE_SECRET, b"secret")
        };
        let mut hosts = Vec::new();
        for _ in 0..256 {
            hosts.push(sdk.host_with(&token, named).await.unwrap());
        }
        let refused = sdk.host_with(&token, named).await.err().unwrap();
        assert!(
            refused
                .text
                .contains("hosted 256 times under this instance id"),
            "{}",
            refused.text
        );
        // Another instance is not affected, and one that ends makes room.
        sdk.host_with(&token, |bind| bind.bytes(key::INSTANCE, b"two"))
            .await
            .unwrap();
        hosts[0].unbind().await.unwrap();
        assert!(soon(|| scene
            .server
            .admin
            .get("/terminators?limit=1")
            .expect(200)
            .total()
            == 256));
        sdk.host_with(&token, named).await.unwrap();
        let other = |bind: Builder| {
            bind.bytes(key::INSTANCE, b"two")
                .bytes(key::INSTANCE_SECRET, b"other")
        };
        assert!(
            sdk.host_with(&token, other)
                .await
                .err()
                .unwrap()
                .text
                .contains("another secret")
        );
    });
}

#[test]
fn dynamic_cost_counts_circuits_and_failures() {
    let scene = Scene::new();
    let cost = || {
        scene.server.admin.get("/terminators").expect(200).data()[0]["dynamicCost"]
            .as_u64()
            .unwrap()
    };
    run(async {
        let (client, _host, mut listener) = scene.connected(Options::GO).await;
        assert_eq!(cost(), 2);
        let token = scene.client.session(&scene.service, "Dial");
        let (second, _end) = tokio::join!(client.sdk.dial(&token), listener.accept());
        assert_eq!(cost(), 4);
        second.unwrap().close().await;
        client.close().await;
        assert!(soon(|| cost() == 0));

        let (refused, ()) = tokio::join!(client.sdk.dial(&token), async {
            let dial = listener.dialed().await;
            listener.refuse(&dial, "not now").await;
        });
        assert_eq!(
            (refused.err().unwrap().text.as_str(), cost()),
            ("not now", 20)
        );
        let (third, _end) = tokio::join!(client.sdk.dial(&token), listener.accept());
        third.unwrap().close().await;
        assert!(soon(|| cost() == 18), "a success lowers it: {}", cost());
    });
}
