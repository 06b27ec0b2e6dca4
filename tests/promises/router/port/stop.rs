//! How the router stops.

use super::*;

/// A scene whose stop waits a second for open circuits.
fn soon_stopped() -> Scene {
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.router.drain_timeout = "1s".parse().unwrap();
    });
    Scene::on(server, false)
}

/// libziti 0.29.3 takes the answer to its next hello for the rest of an incomplete message, and
/// connects no more.
#[test]
fn stop_cuts_no_message() {
    let scene = soon_stopped();
    let router = scene.server.router();
    let sdk = run(async {
        let (mut client, host, listener) = scene.connected(Options::GO).await;
        let sdk = client.sdk.clone();
        sdk.pause();
        tokio::spawn(async move {
            while !listener.sdk.is_closed() {
                host.send(&[0; 32 << 10]).await;
            }
        });
        tokio::spawn(async move { while client.message().await.is_some() {} });
        sdk
    });
    assert!(
        soon(|| router.queued_bytes() > 512 << 10),
        "{}",
        router.queued_bytes()
    );
    std::thread::scope(|scope| {
        scope.spawn(|| router.drain());
        assert!(
            soon(|| router.queued_bytes() < 256 << 10),
            "{}",
            router.queued_bytes()
        );
        sdk.resume();
    });
    run(sdk.closed());
    assert!(!sdk.was_cut());
}

#[test]
fn stop_ends_circuits_in_time() {
    let scene = soon_stopped();
    let (mut client, mut host, mut listener) = run(scene.connected(Options::GO));
    let (server, member) = (scene.server, scene.host);
    let stopping = std::thread::spawn(move || drop(server.closed()));
    run(async {
        for conn in [&mut client, &mut host] {
            let ended = conn.ended().await;
            assert_eq!(ended.text, "the router is stopping");
            assert!(ended.structured.unwrap().contains("\"retryHint\":1"));
        }
        assert!(
            listener.message().await.is_none(),
            "a host that was told would bind again"
        );
        // libziti 0.29.3 refreshes its API session now; without an answer it would never host
        // again.
        member.caller.get("/current-api-session").expect(200);
        client.sdk.closed().await;
        assert_eq!(client.next().await, Event::Lost);
    });
    stopping.join().unwrap();
}

#[test]
fn stop_waits_for_open_circuits() {
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.router.drain_timeout = Span::minutes(1);
    });
    let scene = Scene::on(server, false);
    let (mut client, token) = run(async {
        tokio::spawn(scene.hosted(Options::GO).await.echo());
        let (sdk, token) = scene.dialler(Options::GO).await;
        (sdk.dial(&token).await.unwrap(), token)
    });
    let server = scene.server;
    let stopping = std::thread::spawn(move || drop(server.closed()));
    run(async {
        let refused = loop {
            match client.sdk.dial(&token).await {
                Ok(earlier) => earlier.close().await,
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused.text, "the router is stopping");
        assert!(refused.structured.unwrap().contains("\"retryHint\":1"));
        for _ in 0..20 {
            client.send(&[7; 50_000]).await;
            assert_eq!(client.data().await, [7; 50_000]);
        }
        assert!(!stopping.is_finished());
        client.close().await;
    });
    // Every wait of the tests is shorter than the limit of the stop.
    assert!(
        soon(|| stopping.is_finished()),
        "the stop waits although the circuit has ended"
    );
    stopping.join().unwrap();
}
