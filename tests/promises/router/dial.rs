//! From a Connect message to a connection, or to a refusal with its reason.

use serde_json::json;
use wire::frame::{Builder, content, key as common};

use super::{
    scene::{Member, Scene, run},
    sdk::{Event, Host, Options, Refused, Sdk, encryption::Keys, key, kind},
};
use crate::harness::{TestServer, fresh};

/// The refusal of a dial.
async fn refused(sdk: &Sdk, token: &str) -> Refused {
    sdk.dial(token).await.err().unwrap()
}

#[test]
fn refusals_carry_text_and_code() {
    let scene = Scene::new();
    let stranger = Member::new(&scene.server, "stranger");
    scene.server.service_policy(
        "Dial",
        &[&format!("@{}", stranger.id)],
        &[&format!("@{}", scene.service)],
    );
    run(async {
        let (sdk, token) = scene.dialler(Options::GO).await;
        let no_host = refused(&sdk, &token).await;
        assert_eq!(
            (no_host.text.as_str(), no_host.code),
            (
                format!("service {} has no terminators", scene.service).as_str(),
                Some(1)
            )
        );
        let structured: serde_json::Value =
            serde_json::from_str(&no_host.structured.unwrap()).unwrap();
        assert_eq!(
            structured,
            json!({ "message": no_host.text, "code": 1, "cause": null, "retryHint": 0 })
        );

        let others = stranger.session(&scene.service, "Dial");
        for unknown in [
            "00000000-0000-0000-0000-000000000000",
            "",
            "\u{7f}",
            others.as_str(),
        ] {
            let refused = refused(&sdk, unknown).await;
            assert_eq!(
                (refused.text.as_str(), refused.code),
                ("Invalid Session", Some(3)),
                "{unknown}"
            );
            assert!(refused.structured.unwrap().contains("\"retryHint\":2"));
        }
        let id = sdk.next_id();
        let not_text = sdk
            .ask(
                Builder::new(kind::CONNECT)
                    .u32(key::CONNECTION, id)
                    .body(&[0xff, 0xfe]),
            )
            .await
            .unwrap();
        assert_eq!(not_text.body(), b"Invalid Session");

        let hosting = scene.host.connect(&scene.server, Options::GO).await;
        let wrong = refused(&hosting, &scene.host.session(&scene.service, "Bind")).await;
        assert_eq!(wrong.code, Some(4));
        let without_id = sdk
            .ask(Builder::new(kind::CONNECT).body(token.as_bytes()))
            .await
            .unwrap();
        assert_eq!(without_id.content_type(), kind::STATE_CLOSED);
    });
}

#[test]
fn unknown_tokens_do_not_block_known() {
    let scene = Scene::new();
    run(async {
        let _listener = tokio::spawn(scene.hosted(Options::GO).await.echo());
        let (sdk, token) = scene.dialler(Options::GO).await;
        for _ in 0..15 {
            assert_eq!(refused(&sdk, "nonsense").await.text, "Invalid Session");
        }
        sdk.dial(&token).await.unwrap();
    });
}

#[test]
fn connection_ids_are_used_once() {
    let scene = Scene::new();
    run(async {
        let host = scene.hosted(Options::C).await;
        assert_eq!(host.id, 0);
        tokio::spawn(host.echo());
        let (sdk, token) = scene.dialler(Options::C).await;
        let mut first = sdk.dial(&token).await.unwrap();
        assert_eq!(first.id, 0);
        let again = sdk
            .ask(
                Builder::new(kind::CONNECT)
                    .u32(key::CONNECTION, 0)
                    .body(token.as_bytes()),
            )
            .await
            .unwrap();
        assert_eq!(
            (again.content_type(), again.body()),
            (kind::STATE_CLOSED, &b"connection id 0 is in use"[..])
        );
        first.send(b"still good").await;
        assert_eq!(first.data().await, b"still good");
        first.close().await;
        let reused = sdk
            .ask(
                Builder::new(kind::CONNECT)
                    .u32(key::CONNECTION, 0)
                    .body(token.as_bytes()),
            )
            .await
            .unwrap();
        assert_eq!(reused.content_type(), kind::STATE_CONNECTED);
    });
}

#[test]
fn hosts_learn_the_caller() {
    let scene = Scene::new();
    run(async {
        let mut host = scene.hosted(Options::GO).await;
        let (sdk, token) = scene.dialler(Options::GO).await;
        let headers = |connect: Builder| {
            let connect = connect
                .text(key::CALLER, "the president")
                .bytes(key::APP_DATA, b"{\"dst_port\":80}")
                .text(key::MARKER, "mark");
            connect
                .bytes(key::PUBLIC_KEY, &[9; 32])
                .bytes(key::CRYPTO_METHOD, &[0])
                .flag(key::SDK_FLOW_CONTROL, true)
        };
        let (client, accepted) = tokio::join!(sdk.dial_with(&token, headers), host.accept());
        let (client, dial) = (client.unwrap(), accepted.made_by);
        assert_eq!(dial.u32(key::CONNECTION), Some(host.id));
        assert_eq!(
            dial.text(key::CALLER),
            Some(scene.client.name.as_str()),
            "the host gets the real name, not what the client claims"
        );
        assert_eq!(
            (dial.text(1034), dial.text(1035)),
            (
                Some(scene.client.id.as_str()),
                Some(scene.client.name.as_str())
            )
        );
        assert_eq!(dial.header(key::APP_DATA), Some(&b"{\"dst_port\":80}"[..]));
        assert_eq!(
            (dial.text(key::MARKER), dial.header(key::PUBLIC_KEY)),
            (Some("mark"), Some(&[9; 32][..]))
        );
        assert_eq!(
            dial.header(key::CRYPTO_METHOD),
            None,
            "SDKs refuse the forms of others"
        );
        assert!(dial.u32(key::ROUTER_CONNECTION).unwrap() >= 0x8000_0000);
        let circuit = dial.text(key::CIRCUIT).unwrap();
        assert!(circuit.len() <= 15 && client.made_by.text(key::CIRCUIT) == Some(circuit));
        // The host does no flow control of its own, so that neither end is told to.
        assert!(
            dial.header(key::SDK_FLOW_CONTROL).is_none()
                && client.made_by.header(key::SDK_FLOW_CONTROL).is_none()
        );
    });
}

#[test]
fn encryption_keys_are_relayed_and_required() {
    let scene = Scene::on(TestServer::with_router(), true);
    run(async {
        let token = scene.host.session(&scene.service, "Bind");
        let sdk = scene.host.connect(&scene.server, Options::GO).await;
        let keyless = sdk.host(&token).await.unwrap();
        let (client, dial_token) = scene.dialler(Options::GO).await;
        let without = refused(&client, &dial_token).await;
        assert_eq!(
            (without.code, without.text.contains("initiator")),
            (Some(11), true),
            "{}",
            without.text
        );

        let with_key = |connect: Builder| connect.bytes(key::PUBLIC_KEY, &[1; 32]);
        let mut keyless_host = keyless;
        let (outcome, accepted) = tokio::join!(
            client.dial_with(&dial_token, with_key),
            keyless_host.accept()
        );
        assert_eq!(
            outcome.err().unwrap().code,
            Some(11),
            "neither Bind nor DialSuccess had a key"
        );
        assert!(
            matches!({ accepted }.next().await, Event::Closed(_)),
            "the host's end of a refused dial is closed"
        );
        keyless_host.unbind().await;

        let mut host = sdk
            .host_with(&token, |bind| bind.bytes(key::PUBLIC_KEY, &[2; 32]))
            .await
            .unwrap();
        let (connected, _accepted) =
            tokio::join!(client.dial_with(&dial_token, with_key), host.accept());
        assert_eq!(
            connected.unwrap().made_by.header(key::PUBLIC_KEY),
            Some(&[2; 32][..])
        );
        // The key of a connection takes precedence over the key of the Bind.
        let (connected, _accepted) = tokio::join!(client.dial_with(&dial_token, with_key), async {
            let dial = host.dialed().await;
            host.answer(dial, |answer| answer.bytes(key::PUBLIC_KEY, &[3; 40]))
                .await
        });
        assert_eq!(
            connected.unwrap().made_by.header(key::PUBLIC_KEY),
            Some(&[3; 40][..])
        );
    });
}

#[test]
fn sealed_messages_pass_in_both_forms() {
    let scene = Scene::on(TestServer::with_router(), true);
    run(async {
        for (hosting, dialing) in [(Options::GO, Options::C), (Options::C, Options::GO)] {
            let keys = Keys::new();
            let sdk = scene.host.connect(&scene.server, hosting).await;
            let mut host = sdk
                .host_sealed(&scene.host.session(&scene.service, "Bind"), &keys)
                .await
                .unwrap();
            let (client, token) = scene.dialler(dialing).await;
            let (client, mut accepted) =
                tokio::join!(client.dial_sealed(&token), host.accept_sealed(&keys));
            let mut client = client.unwrap();
            for _ in 0..3 {
                client.send(b"question").await;
                assert_eq!(accepted.next().await.unwrap(), b"question");
                accepted.send(&[7; 40_000]).await;
                assert!(client.next().await.unwrap() == [7; 40_000]);
            }
            client.conn.finish().await;
            assert_eq!(accepted.next().await, None);
            host.unbind().await;
        }
    });
}

#[test]
fn early_data_waits_for_the_client() {
    let scene = Scene::new();
    for options in [Options::GO, Options::C] {
        run(async {
            let mut host = scene.hosted(options).await;
            let (sdk, token) = scene.dialler(Options::GO).await;
            let dialing = tokio::spawn(async move { sdk.dial(&token).await });
            let dial = host.dialed().await;
            let id = dial.u32(key::ROUTER_CONNECTION).unwrap_or(4711);
            // Answer and data in one write.
            let mut answer = Builder::reply(kind::DIAL_SUCCESS, &dial)
                .u32(key::CONNECTION, host.id)
                .body(&id.to_le_bytes());
            let mut data = Builder::new(kind::DATA)
                .u32(key::CONNECTION, id)
                .body(b"first words");
            answer.set_sequence(900);
            data.set_sequence(901);
            host.sdk
                .send_bytes(&[answer.as_bytes(), data.as_bytes()].concat())
                .await
                .unwrap();
            // The SDK would drop data of a connection that it does not know yet.
            let mut client = dialing.await.unwrap().unwrap();
            assert_eq!(client.data().await, b"first words");
            host.unbind().await;
        });
    }
}

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
fn abandoned_dials_leave_nothing() {
    let scene = Scene::new();
    run(async {
        let mut host = scene.hosted(Options::GO).await;
        let (sdk, token) = scene.dialler(Options::GO).await;
        let id = sdk.next_id();
        sdk.send(
            Builder::new(kind::CONNECT)
                .u32(key::CONNECTION, id)
                .body(token.as_bytes()),
        )
        .await
        .unwrap();
        let dial = host.dialed().await;
        sdk.send(
            Builder::new(kind::STATE_CLOSED)
                .u32(key::CONNECTION, id)
                .empty(),
        )
        .await
        .unwrap();
        sdk.ask(Builder::new(content::PING).empty()).await.unwrap();
        let mut accepted = host.answer(dial, |answer| answer).await;
        assert!(matches!(accepted.next().await, Event::Closed(_)));
        assert!(scene.server.router().circuits().is_empty());
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
