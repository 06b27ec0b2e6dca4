//! What both ends of a dial are told.

use super::*;

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
