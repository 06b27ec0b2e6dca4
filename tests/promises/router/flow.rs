//! End-to-end flow control between SDKs: the router relays it if both ends support it.

use wire::frame::{Builder, Frame};

use super::{
    scene::{Scene, run},
    sdk::{Conn, Event, FIN, Host, Options, key, kind},
};

const PAYLOAD: i32 = 1100;
const ACK: i32 = 1101;
const CONTROL: i32 = 1102;
const CLOSE: i32 = 1103;
const CIRCUIT: i32 = 2256;
const SEQUENCE: i32 = 2257;
const FLAGS: i32 = 2258;
const FROM_HOST: u32 = 2;

async fn connected(
    scene: &Scene,
    client_requests: bool,
    host_requests: bool,
) -> (Conn, Conn, Host) {
    let sdk = scene.host.connect(&scene.server, Options::GO).await;
    let requesting =
        |requests: bool| move |message: Builder| message.flag(key::SDK_FLOW_CONTROL, requests);
    let mut host = sdk
        .host_with(
            &scene.host.session(&scene.service, "Bind"),
            requesting(host_requests),
        )
        .await
        .unwrap();
    let (client, token) = scene.dialler(Options::GO).await;
    let (client, accepted) = tokio::join!(
        client.dial_with(&token, requesting(client_requests)),
        host.accept()
    );
    (client.unwrap(), accepted, host)
}

fn payload(circuit: &str, sequence: u64, flags: u32, body: &[u8]) -> Frame {
    Builder::new(PAYLOAD)
        .text(CIRCUIT, circuit)
        .u64(SEQUENCE, sequence)
        .u32(FLAGS, flags)
        .body(body)
}

#[test]
fn flow_control_needs_both_ends() {
    let scene = Scene::new();
    run(async {
        for (client_requests, host_requests) in
            [(true, false), (false, true), (false, false), (true, true)]
        {
            let (client, host, listener) = connected(&scene, client_requests, host_requests).await;
            let is_on = client_requests && host_requests;
            for made_by in [&client.made_by, &host.made_by] {
                assert_eq!(made_by.is_set(key::SDK_FLOW_CONTROL), is_on);
                assert_eq!(
                    (
                        made_by.header(1029).is_some(),
                        made_by.header(1030).is_some()
                    ),
                    (is_on, is_on)
                );
            }
            listener.unbind().await;
        }
    });
}

#[test]
fn payloads_and_acks_are_relayed() {
    let scene = Scene::new();
    run(async {
        let (mut client, mut host, _listener) = connected(&scene, true, true).await;
        let circuit = client.made_by.text(key::CIRCUIT).unwrap().to_owned();
        client
            .sdk
            .send(payload(&circuit, 0, 0, b"data"))
            .await
            .unwrap();
        let received = host.message().await.unwrap();
        assert_eq!(
            (
                received.content_type(),
                received.u32(key::CONNECTION),
                received.u64(SEQUENCE)
            ),
            (PAYLOAD, Some(host.id), Some(0))
        );
        assert_eq!(
            (received.text(CIRCUIT), received.body()),
            (Some(circuit.as_str()), &b"data"[..])
        );
        // Acknowledgements name no connection.
        let ack = Builder::new(ACK)
            .text(CIRCUIT, &circuit)
            .u32(FLAGS, FROM_HOST)
            .body(&0_i32.to_be_bytes());
        host.sdk.send(ack).await.unwrap();
        let received = client.message().await.unwrap();
        assert_eq!(
            (
                received.content_type(),
                received.u32(key::CONNECTION),
                received.body()
            ),
            (ACK, Some(client.id), &[0, 0, 0, 0][..])
        );
        client
            .sdk
            .send(Builder::new(CONTROL).body(&[&[1][..], circuit.as_bytes()].concat()))
            .await
            .unwrap();
        assert_eq!(host.message().await.unwrap().content_type(), CONTROL);
        // A plain close would overtake payloads, so that a flag in the payloads ends the
        // connection.
        client
            .sdk
            .send(
                Builder::new(kind::DATA)
                    .u32(key::CONNECTION, client.id)
                    .u32(key::FLAGS, FIN)
                    .empty(),
            )
            .await
            .unwrap();
        client
            .sdk
            .send(payload(&circuit, 1, 32, b"last"))
            .await
            .unwrap();
        assert_eq!(host.message().await.unwrap().content_type(), PAYLOAD);
        client
            .sdk
            .send(Builder::new(CLOSE).body(circuit.as_bytes()))
            .await
            .unwrap();
        assert!(
            matches!(host.next().await, Event::Closed(reason) if reason.text == "xgress unrouted")
        );
        assert!(scene.server.router().circuits().is_empty());
    });
}

#[test]
fn flags_tell_the_direction() {
    let scene = Scene::new();
    scene.server.service_policy(
        "Dial",
        &[&format!("@{}", scene.host.id)],
        &[&format!("@{}", scene.service)],
    );
    run(async {
        let requesting = |message: Builder| message.flag(key::SDK_FLOW_CONTROL, true);
        let sdk = scene.host.connect(&scene.server, Options::GO).await;
        let mut listener = sdk
            .host_with(&scene.host.session(&scene.service, "Bind"), requesting)
            .await
            .unwrap();
        let token = scene.host.session(&scene.service, "Dial");
        let (client, mut host) = tokio::join!(sdk.dial_with(&token, requesting), listener.accept());
        let mut client = client.unwrap();
        let circuit = client.made_by.text(key::CIRCUIT).unwrap().to_owned();
        sdk.send(payload(&circuit, 0, 0, b"to the host"))
            .await
            .unwrap();
        assert_eq!(host.message().await.unwrap().body(), b"to the host");
        sdk.send(payload(&circuit, 0, FROM_HOST, b"to the client"))
            .await
            .unwrap();
        assert_eq!(client.message().await.unwrap().body(), b"to the client");
    });
}

#[test]
fn foreign_circuits_are_out_of_reach() {
    let scene = Scene::new();
    run(async {
        let (client, mut host, _listener) = connected(&scene, true, true).await;
        let circuit = client.made_by.text(key::CIRCUIT).unwrap().to_owned();
        let stranger = super::scene::Member::new(&scene.server, "stranger")
            .connect(&scene.server, Options::GO)
            .await;
        stranger
            .send(payload(&circuit, 0, 0, b"forged"))
            .await
            .unwrap();
        stranger
            .send(Builder::new(CLOSE).body(circuit.as_bytes()))
            .await
            .unwrap();
        stranger
            .send(
                Builder::new(kind::DATA)
                    .u32(key::CONNECTION, host.id)
                    .body(b"forged"),
            )
            .await
            .unwrap();
        stranger
            .ask(Builder::new(wire::frame::content::PING).empty())
            .await
            .unwrap();
        client
            .sdk
            .send(payload(&circuit, 0, 0, b"real"))
            .await
            .unwrap();
        assert_eq!(host.message().await.unwrap().body(), b"real");
    });
}
