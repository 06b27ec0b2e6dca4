//! libziti 1.18 at the built-in router: it names its method of end-to-end encryption by a text, Go
//! SDKs by one byte, and each refuses the form of the other.

use wire::frame::Builder;

use super::{
    scene::{Scene, run},
    sdk::{Event, Options, encryption::Keys, key},
};
use crate::harness::TestServer;

/// What SDKs send as their method, and what none sends.
const METHODS: [&[u8]; 7] = [
    b"libsodium",
    b"aes-gcm",
    &[0],
    &[1],
    &[],
    &[0, 0],
    &[b'x'; 300],
];

#[test]
fn crypto_methods_stay_with_their_sender() {
    let scene = Scene::on(TestServer::with_router(), true);
    for (dialing, hosting) in [
        (Options::LIBZITI, Options::GO),
        (Options::GO, Options::LIBZITI),
        (Options::LIBZITI, Options::C),
    ] {
        run(async {
            let sdk = scene.host.connect(&scene.server, hosting).await;
            let token = scene.host.session(&scene.service, "Bind");
            let of_bind = |bind: Builder| {
                bind.bytes(key::PUBLIC_KEY, &[2; 32])
                    .bytes(key::CRYPTO_METHOD, b"libsodium")
            };
            let mut host = sdk.host_with(&token, of_bind).await.unwrap();
            let (client, token) = scene.dialler(dialing).await;
            for method in METHODS {
                let of_client = |connect: Builder| {
                    connect
                        .bytes(key::PUBLIC_KEY, &[1; 32])
                        .bytes(key::CRYPTO_METHOD, method)
                };
                let (connected, accepted) =
                    tokio::join!(client.dial_with(&token, of_client), async {
                        let dial = host.dialed().await;
                        host.answer(dial, |answer| {
                            answer
                                .bytes(key::PUBLIC_KEY, &[3; 32])
                                .bytes(key::CRYPTO_METHOD, method)
                        })
                        .await
                    });
                let connected = connected.unwrap();
                for (made_by, public_key) in
                    [(&accepted.made_by, [1; 32]), (&connected.made_by, [3; 32])]
                {
                    assert_eq!(made_by.header(key::CRYPTO_METHOD), None, "{method:?}");
                    assert_eq!(made_by.header(key::PUBLIC_KEY), Some(&public_key[..]));
                }
            }
            host.unbind().await;
        });
    }
}

#[test]
fn libziti_reaches_go_hosts_sealed() {
    let scene = Scene::on(TestServer::with_router(), true);
    for (dialing, hosting) in [
        (Options::LIBZITI, Options::GO),
        (Options::GO, Options::LIBZITI),
    ] {
        run(async {
            let keys = Keys::new();
            let sdk = scene.host.connect(&scene.server, hosting).await;
            let mut host = sdk
                .host_sealed(&scene.host.session(&scene.service, "Bind"), &keys)
                .await
                .unwrap();
            let (client, token) = scene.dialler(dialing).await;
            let (client, accepted) =
                tokio::join!(client.dial_sealed(&token), host.accept_sealed(&keys));
            let (mut client, mut accepted) = (client.unwrap(), accepted);
            assert_eq!(accepted.conn.made_by.header(key::CRYPTO_METHOD), None);
            client.send(b"ping").await;
            assert_eq!(accepted.next().await.unwrap(), b"ping");
            accepted.send(b"pong").await;
            assert_eq!(client.next().await.unwrap(), b"pong");
            client.conn.close().await;
            assert!(matches!(accepted.conn.next().await, Event::Closed(_)));
            host.unbind().await;
        });
    }
}
