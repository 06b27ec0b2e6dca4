//! How a channel is opened, who may open one, and what keeps it open.

use fabric::network::ChannelPeer;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::frame::{Builder, Frame, content, key as common};

use super::{
    scene::{Member, answer, run},
    sdk::{Options, Sdk, key},
};
use crate::harness::{Key, PASSWORD, TestServer, fresh};

fn hello(token: &str, sequence: i32) -> Frame {
    let mut hello = Builder::new(content::HELLO)
        .text(key::SESSION_TOKEN, token)
        .body(b"tester");
    hello.set_sequence(sequence);
    hello
}

#[test]
fn hello_answer_names_the_router() {
    let server = TestServer::with_router();
    let member = Member::new(&server, "member");
    run(async {
        for sequence in [-1, 0, 1, 77] {
            let answer = answer(
                member.stream(&server),
                hello(member.token(), sequence).as_bytes(),
            )
            .await
            .unwrap();
            assert_eq!(
                (answer.content_type(), answer.sequence()),
                (content::RESULT, -1)
            );
            assert_eq!(answer.i32(common::REPLY_FOR), Some(sequence));
            assert_eq!(answer.header(common::SUCCESS), Some(&[1][..]));
            assert_eq!(
                (answer.text(common::ID), answer.header(key::BIND_SUCCESS)),
                (Some("built-in"), Some(&[1][..]))
            );
            let version: Vec<_> = answer.text(common::VERSION).unwrap().split('|').collect();
            assert!(
                version.len() == 5 && version[0].starts_with('v'),
                "{version:?}"
            );
            assert!(!answer.text(common::CONNECTION_ID).unwrap().is_empty());
        }
        // Grouped connections are declined by leaving them out of the answer.
        let mut grouped = Builder::new(content::HELLO)
            .text(key::SESSION_TOKEN, member.token())
            .flag(common::IS_GROUPED, true);
        grouped = grouped
            .flag(11, true)
            .text(common::CHANNEL_TYPE, "edge.default");
        let answer = answer(member.stream(&server), grouped.empty().as_bytes())
            .await
            .unwrap();
        assert!(
            answer.is_set(common::SUCCESS)
                && answer.header(common::IS_GROUPED).is_none()
                && answer.header(10).is_none()
        );
    });
}

#[test]
fn hello_needs_the_session_holder() {
    let server = TestServer::with_router();
    let (member, other) = (
        Member::new(&server, "member"),
        Member::new(&server, "other"),
    );
    let refusal = |peer: ChannelPeer, frame: Frame| {
        run(async {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            server.router().serve(theirs, peer).unwrap();
            let refused = answer(ours, frame.as_bytes()).await.unwrap();
            assert_eq!(
                (refused.content_type(), refused.header(common::SUCCESS)),
                (content::RESULT, Some(&[0][..]))
            );
            assert_eq!(refused.i32(common::REPLY_FOR), Some(frame.sequence()));
            String::from_utf8(refused.body().to_vec()).unwrap()
        })
    };
    let shown = |member: &Member| ChannelPeer {
        address: None,
        leaf: Some(member.leaf.clone()),
    };
    let without_certificate = ChannelPeer::default();
    assert_eq!(
        refusal(
            shown(&member),
            hello("00000000-0000-0000-0000-000000000000", 0)
        ),
        "invalid API session"
    );
    assert_eq!(
        refusal(shown(&member), hello("", -1)),
        "invalid API session"
    );
    assert_eq!(
        refusal(shown(&member), Builder::new(content::HELLO).empty()),
        "a hello must carry the token of an API session"
    );
    assert_eq!(
        refusal(without_certificate, hello(member.token(), 1)),
        "a client certificate is needed"
    );
    let text = "the client certificate does not belong to the API session";
    assert_eq!(refusal(shown(&other), hello(member.token(), 1)), text);
    assert_eq!(refusal(shown(&member), hello(other.token(), 1)), text);
    assert_eq!(
        refusal(shown(&member), Builder::new(content::PING).empty()),
        "the first message must be a hello"
    );

    server
        .admin
        .post(
            &format!("/identities/{}/disable", other.id),
            json!({ "durationMinutes": 10 }),
        )
        .expect(200);
    assert_eq!(
        refusal(shown(&other), hello(other.token(), 1)),
        "invalid API session"
    );
    member.caller.delete("/current-api-session").expect(200);
    assert_eq!(
        refusal(shown(&member), hello(member.token(), 1)),
        "invalid API session"
    );
    assert!(server.router().channels().is_empty());
}

#[test]
fn session_certificates_fit_one_session() {
    let server = TestServer::with_router();
    let name = fresh("user");
    let (id, caller) = server.user(&name, json!({}));
    let key = Key::new();
    let issued = caller
        .post(
            "/current-api-session/certificates",
            json!({ "csr": key.request() }),
        )
        .expect(201);
    let pem = issued.data()["certificate"].as_str().unwrap();
    let mut member = Member::showing(id, name.clone(), caller, pem, key);
    run(async { member.connect(&server, Options::C).await });
    member.caller = server.anonymous().log_in(&name, PASSWORD);
    let refused = run(member.try_connect(&server, Options::C)).err().unwrap();
    assert_eq!(
        refused.text,
        "the client certificate does not belong to the API session"
    );
}

#[test]
fn invalid_hello_closes_the_connection() {
    let server = TestServer::with_router();
    let member = Member::new(&server, "member");
    let long = Builder::new(content::HELLO)
        .text(key::SESSION_TOKEN, member.token())
        .bytes(500, &[0; 4193])
        .empty();
    let body = Builder::new(content::HELLO)
        .text(key::SESSION_TOKEN, member.token())
        .body(&[b'x'; 4193]);
    let fits = Builder::new(content::HELLO)
        .text(key::SESSION_TOKEN, member.token())
        .body(&[b'x'; 4192]);
    run(async {
        for bytes in [
            long.as_bytes(),
            body.as_bytes(),
            b"GET / HTTP/1.1\r\n\r\n",
            &[
                0x03, 0x06, 0x09, 0x0c, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255,
            ],
        ] {
            let mut stream = member.stream(&server);
            let _ = stream.write_all(bytes).await;
            let _ = stream.write_all(&[0; 64]).await;
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
            assert_eq!(rest, b"");
        }
        assert!(
            answer(member.stream(&server), fits.as_bytes())
                .await
                .unwrap()
                .is_set(common::SUCCESS)
        );
    });
    assert!(super::scene::soon(|| server.router().channels().is_empty()));
}

#[test]
fn probes_are_answered() {
    let server = TestServer::with_router();
    let member = Member::new(&server, "member");
    run(async {
        let sdk = member.connect(&server, Options::GO).await;
        for unknown in [
            10800,
            60792,
            60793,
            60799,
            60803,
            60805,
            60806,
            1100,
            1101,
            1102,
            1103,
            5,
            -33,
            i32::MAX,
            60785,
            60786,
            60788,
            60789,
        ] {
            let frame = Builder::new(unknown)
                .u32(key::CONNECTION, 4711)
                .i32(common::REPLY_FOR, 9)
                .body(&[7; 100]);
            sdk.send(frame).await.unwrap();
            sdk.send(Builder::new(unknown).body(&[7; 200_000]))
                .await
                .unwrap();
        }
        let probe = Builder::new(content::LATENCY)
            .u64(128, 0x1234_5678_9abc)
            .empty();
        let answer = sdk.ask(probe).await.unwrap();
        assert_eq!(
            (answer.content_type(), answer.u64(128)),
            (content::RESULT, Some(0x1234_5678_9abc))
        );
        assert!(answer.is_set(common::SUCCESS));
        assert!(
            sdk.ask(Builder::new(content::PING).empty())
                .await
                .unwrap()
                .is_set(common::SUCCESS)
        );
        assert!(!sdk.is_closed());
    });
}

#[test]
fn token_updates_are_answered() {
    let server = TestServer::with_router();
    let (member, other) = (
        Member::new(&server, "member"),
        Member::new(&server, "other"),
    );
    run(async {
        let sdk = member.connect(&server, Options::GO).await;
        // Two numbers of the same message, depending on the version of the SDK.
        for number in [60800, 60803] {
            let update = |token: &str| Builder::new(number).body(token.as_bytes());
            assert_eq!(
                sdk.ask(update(member.token()))
                    .await
                    .unwrap()
                    .content_type(),
                60801
            );
            let refused = sdk.ask(update(other.token())).await.unwrap();
            assert_eq!(
                (refused.content_type(), refused.body().is_empty()),
                (60802, false)
            );
        }
        assert!(!sdk.is_closed());
    });
}

#[test]
fn records_show_connected_identities() {
    let server = TestServer::with_router();
    let member = Member::new(&server, "member");
    let path = format!("/identities/{}", member.id);
    let connected = || {
        let shown = server.admin.get(&path).expect(200).data().clone();
        let is_connected = shown["hasEdgeRouterConnection"] == true;
        assert_eq!(
            shown["edgeRouterConnectionStatus"],
            if is_connected { "online" } else { "offline" }
        );
        is_connected
    };
    assert!(!connected());
    let (one, other) = run(async {
        (
            member.connect(&server, Options::GO).await,
            member.connect(&server, Options::C).await,
        )
    });
    assert!(connected());
    let shown = server.router().channels();
    assert_eq!(
        shown
            .iter()
            .map(|channel| (channel.identity_id.as_str(), channel.hello.as_str()))
            .collect::<Vec<_>>(),
        [(member.id.as_str(), "test-sdk"); 2]
    );
    run(one.leave());
    run(one.closed());
    assert!(connected());
    run(other.leave());
    run(other.closed());
    assert!(super::scene::soon(
        || server.router().channels().is_empty() && !connected()
    ));
}

#[test]
fn channels_keep_sessions_alive() {
    let server = TestServer::with(
        model::clock::Clock::manual(model::clock::Clock::system().now()),
        |config| config.router.enabled = true,
    )
    .unverified();
    let (member, idle) = (Member::new(&server, "member"), Member::new(&server, "idle"));
    let sdk = run(member.connect(&server, Options::GO));
    for _ in 0..4 {
        server
            .clock
            .advance(std::time::Duration::from_secs(15 * 60));
        // The router does this every thirty seconds; here the test triggers it.
        server.router().mark_active();
        server.run_due_jobs();
    }
    assert!(!sdk.is_closed());
    member.caller.get("/current-api-session").expect(200);
    idle.caller.get("/current-api-session").expect(401);
    assert_eq!(
        run(Sdk::connect(
            idle.stream(&server),
            idle.token(),
            Options::GO
        ))
        .err()
        .unwrap()
        .text,
        "invalid API session"
    );
}
