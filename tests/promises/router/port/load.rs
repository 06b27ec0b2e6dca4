//! Handshakes and connections that are counted.

use super::*;

#[test]
fn unauthenticated_clients_hold_half_the_handshakes() {
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.http.max_handshakes = 16;
        config.http.handshake_timeout = Span::minutes(1);
    });
    let (member, at, router) = (
        Member::new(&server, "member"),
        server.bound(),
        server.router(),
    );
    let connection = || {
        let member = member.clone();
        async move {
            member
                .tls(at, &["ziti-edge"], vec![member.leaf.clone()], false)
                .await
        }
    };
    run(async {
        let mut silent = Vec::new();
        for _ in 0..8 {
            silent.push(connection().await);
        }
        let ninth = tokio::spawn(connection());
        for _ in 0..20 {
            let mut stream = member
                .tls(at, &["http/1.1"], vec![member.leaf.clone()], false)
                .await;
            stream.write_all(REQUEST).await.unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        assert!(
            !ninth.is_finished(),
            "the ninth unauthenticated client got a slot"
        );
        let known = Sdk::connect(silent.pop().unwrap(), member.token(), Options::GO)
            .await
            .unwrap();
        silent.push(ninth.await.unwrap());
        assert_eq!(router.traffic().channels, 1);
        // An incomplete hello does not keep its slot for long.
        for stream in &mut silent {
            stream.write_all(&[3, 6, 9]).await.unwrap();
        }
        assert_eq!(
            silent[0].read(&mut [0]).await.unwrap_or(0),
            0,
            "it is closed"
        );
        assert!(soon(|| router.traffic().hellos_missing == 8));
        Sdk::connect(connection().await, member.token(), Options::GO)
            .await
            .unwrap();
        assert!(!known.is_closed());
    });
}

#[test]
fn both_kinds_of_connections_are_counted() {
    const ALL: usize = 16;
    let server = TestServer::with(Clock::system(), |config| {
        config.router.enabled = true;
        config.http.max_connections = ALL;
        config.http.workers = 1;
    });
    let (member, at) = (Member::new(&server, "member"), server.bound());
    run(async {
        let mut open = Vec::new();
        // Callers of this test keep connections as well.
        while let Ok(stream) = tokio::time::timeout(
            Duration::from_secs(3),
            member.tls(at, &["ziti-edge"], vec![member.leaf.clone()], false),
        )
        .await
        {
            open.push(
                Sdk::connect(stream, member.token(), Options::GO)
                    .await
                    .unwrap(),
            );
            assert!(open.len() <= ALL, "more connections than allowed");
        }
        let request = tokio::spawn(async move {
            let mut stream = member
                .tls(at, &["http/1.1"], vec![member.leaf.clone()], false)
                .await;
            stream.write_all(REQUEST).await.unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer).await;
            answer
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(
            !request.is_finished() && !open.is_empty(),
            "a connection beyond the limit is served"
        );
        open.truncate(open.len() / 2);
        assert!(request.await.unwrap().starts_with("HTTP/1.1 200"));
    });
}

#[test]
fn many_hellos_leave_logins_their_share() {
    let scene = Scene::new();
    let (at, router) = (scene.server.bound(), scene.server.router());
    let name = fresh("user");
    scene.server.user(&name, json!({}));
    run(async {
        let connect = |number: usize| {
            let member = if number.is_multiple_of(2) {
                scene.client.clone()
            } else {
                scene.host.clone()
            };
            async move {
                let stream = member
                    .tls(at, &["ziti-edge"], vec![member.leaf.clone()], false)
                    .await;
                Sdk::connect(stream, member.token(), Options::GO)
                    .await
                    .unwrap()
            }
        };
        let mut idle = Vec::new();
        for number in 0..100 {
            idle.push(connect(number).await);
        }
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let hellos: Vec<_> = (0..50)
            .map(|number| {
                let (one, stopped) = (connect(number), stopped.clone());
                let member = scene.client.clone();
                tokio::spawn(async move {
                    drop(one.await);
                    let mut count = 1;
                    while !*stopped.borrow() {
                        let stream = member
                            .tls(at, &["ziti-edge"], vec![member.leaf.clone()], false)
                            .await;
                        drop(
                            Sdk::connect(stream, member.token(), Options::GO)
                                .await
                                .unwrap(),
                        );
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        let anonymous = scene.server.anonymous();
        // Log-ins one after the other, each on its own connection.
        let log_in = move || {
            let body = json!({ "username": name, "password": PASSWORD });
            anonymous
                .ask("POST", "/authenticate?method=password")
                .header("connection", "close")
                .json(&body)
                .send()
                .expect(200);
        };
        tokio::task::spawn_blocking(move || (0..20).for_each(|_| log_in()))
            .await
            .unwrap();
        let before = router.traffic().channels_opened;
        stop.send(true).unwrap();
        let mut opened = 0;
        for one in hellos {
            opened += one.await.unwrap();
        }
        assert!(
            before > 150 && opened >= 50,
            "{opened} hellos, {before} of them meanwhile"
        );
        assert!(
            soon(|| router.traffic().channels == 100),
            "{:?}",
            router.traffic()
        );
        assert!(idle.iter().all(|sdk| !sdk.is_closed()));
    });
}
