//! Trace routes.

use wire::frame::Builder;

use super::{
    scene::{Scene, run, soon},
    sdk::{Options, key, kind},
};

const TIME: i32 = 1015;
const HOPS: i32 = 1016;
const HOP_TYPE: i32 = 1017;
const HOP_ID: i32 = 1018;
const REQUEST: i32 = 1019;

#[test]
fn trace_names_router_and_peer() {
    let scene = Scene::new();
    run(async {
        let (client, mut host, _listener) = scene.connected(Options::GO).await;
        let trace = |hops: u32| {
            Builder::new(kind::TRACE_ROUTE)
                .u32(key::CONNECTION, client.id)
                .u32(HOPS, hops)
                .u64(TIME, 12345)
                .empty()
        };
        let router = client.sdk.ask(trace(1)).await.unwrap();
        assert_eq!(
            (router.content_type(), router.u32(HOPS), router.u64(TIME)),
            (kind::TRACE_ROUTE_RESPONSE, Some(0), Some(12345))
        );
        assert_eq!(
            (router.text(HOP_TYPE), router.text(HOP_ID)),
            (Some("router"), Some("built-in"))
        );

        let (answer, ()) = tokio::join!(client.sdk.ask(trace(2)), async {
            let request = host.message().await.unwrap();
            assert_eq!(
                (request.content_type(), request.u32(HOPS), request.u64(TIME)),
                (kind::TRACE_ROUTE, Some(1), Some(12345))
            );
            let answer = Builder::new(kind::TRACE_ROUTE_RESPONSE)
                .u32(key::CONNECTION, host.id)
                .u32(HOPS, 0)
                .text(HOP_TYPE, "sdk/test");
            host.sdk
                .send(answer.u32(REQUEST, request.u32(REQUEST).unwrap()).empty())
                .await
                .unwrap();
        });
        let answer = answer.unwrap();
        assert_eq!(
            (answer.u32(key::CONNECTION), answer.text(HOP_TYPE)),
            (Some(client.id), Some("sdk/test"))
        );
    });
}

/// More traces than wait for one circuit, and than the connection holds.
const FLOOD: usize = 12_000;

#[test]
fn flood_of_traces_closes_no_host() {
    let scene = Scene::new();
    run(async {
        let (client, mut host, _listener) = scene.connected(Options::GO).await;
        host.sdk.pause();
        let (sdk, id) = (client.sdk.clone(), client.id);
        let flood = tokio::spawn(async move {
            for _ in 0..FLOOD {
                let trace = Builder::new(kind::TRACE_ROUTE)
                    .u32(key::CONNECTION, id)
                    .u32(HOPS, 2);
                sdk.send(trace.empty()).await.unwrap();
            }
        });
        let router = scene.server.router();
        assert!(
            soon(|| router.traffic().reader_pauses > 0),
            "the client must wait for the host"
        );
        host.sdk.resume();
        for _ in 0..FLOOD {
            assert_eq!(
                host.message().await.map(|trace| trace.content_type()),
                Some(kind::TRACE_ROUTE)
            );
        }
        flood.await.unwrap();
        client.send(b"data").await;
        assert_eq!(host.data().await, b"data");
    });
}
