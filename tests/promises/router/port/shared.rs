//! The port that the router shares with REST.

use super::*;

#[test]
fn sdks_reach_the_shared_port() {
    let scene = Scene::new();
    let at = scene.server.bound();
    run(async {
        let host = Sdk::connect(
            scene
                .host
                .tls(at, &["ziti-edge"], vec![scene.host.leaf.clone()], false)
                .await,
            scene.host.token(),
            Options::GO,
        );
        let host = host.await.unwrap();
        let mut listener = host
            .host(&scene.host.session(&scene.service, "Bind"))
            .await
            .unwrap();
        let token = scene.client.session(&scene.service, "Dial");
        for (offers, is_old) in [
            (&[][..], false),
            (&[], true),
            (&["ziti-edge"], false),
            (&["h2", "ziti-edge"], true),
        ] {
            let stream = scene
                .client
                .tls(at, offers, vec![scene.client.leaf.clone()], is_old)
                .await;
            let sdk = Sdk::connect(stream, scene.client.token(), Options::C)
                .await
                .unwrap();
            let (client, accepted) = tokio::join!(sdk.dial(&token), listener.accept());
            let (mut client, accepted) = (client.unwrap(), accepted);
            client.send(b"over TLS").await;
            tokio::spawn(accepted.echo());
            assert_eq!(client.data().await, b"over TLS", "{offers:?} {is_old}");
        }
        let shown = scene.server.router().channels();
        assert!(
            shown
                .iter()
                .any(|channel| channel.identity_id == scene.host.id),
            "{shown:?}"
        );
        assert!(
            shown.iter().all(|channel| channel
                .address
                .is_some_and(|address| address.ip().is_loopback())),
            "{shown:?}"
        );
        let log_in = json!({ "sdkInfo": { "type": "ziti-sdk-golang", "version": "1.9.0" } });
        scene
            .host
            .caller
            .post("/authenticate?method=cert", log_in)
            .expect(200);
        let of_host = format!("identity.id = \"{}\"", scene.host.id);
        let listed = scene
            .server
            .admin
            .at(Base::Overkeep)
            .list("/channels", &of_host, "")
            .expect(200);
        let one = &listed.data()[0];
        let of = ["sdk", "sdkVersion", "hello"].map(|name| one[name].as_str().unwrap());
        assert_eq!(
            (listed.total(), &one["identity"]["name"], of),
            (
                1,
                &json!(scene.host.name),
                ["ziti-sdk-golang", "1.9.0", "test-sdk"]
            )
        );
        assert!(
            one["address"]
                .as_str()
                .unwrap()
                .parse::<SocketAddr>()
                .is_ok()
                && one["since"].is_string(),
            "{one}"
        );
    });
}

#[test]
fn rest_works_without_alpn() {
    let scene = Scene::new();
    let at = scene.server.bound();
    run(async {
        for offers in [&["http/1.1"][..], &["h2", "http/1.1"], &[]] {
            let mut stream = scene
                .client
                .tls(at, offers, vec![scene.client.leaf.clone()], false)
                .await;
            stream.write_all(REQUEST).await.unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer).await;
            assert!(
                answer.starts_with("HTTP/1.1 200") && answer.contains("apiVersions"),
                "{offers:?}: {answer}"
            );
        }
        // The bytes read for that belong to the request, and the client certificate counts.
        let mut stream = scene
            .client
            .tls(at, &[], vec![scene.client.leaf.clone()], false)
            .await;
        let request = "POST /edge/client/v1/authenticate?method=cert HTTP/1.1\r\nhost: it\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        for byte in request.as_bytes() {
            stream.write_all(&[*byte]).await.unwrap();
            stream.flush().await.unwrap();
        }
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains(&scene.client.id),
            "{answer}"
        );
    });
}

#[test]
fn proven_certificate_counts() {
    let scene = Scene::new();
    let at = scene.server.bound();
    let stranger = Member::new(&scene.server, "stranger");
    run(async {
        // The stranger appends the certificate of another identity to its own.
        let chain = vec![stranger.leaf.clone(), scene.client.leaf.clone()];
        let refused = Sdk::connect(
            stranger.tls(at, &[], chain, false).await,
            scene.client.token(),
            Options::GO,
        )
        .await
        .err()
        .unwrap();
        assert_eq!(
            refused.text,
            "the client certificate does not belong to the API session"
        );
    });
}

/// Counts the authorities that a server names when it asks for a client certificate.
#[derive(Debug)]
struct NamedAuthorities(AtomicUsize);

impl ResolvesClientCert for NamedAuthorities {
    fn resolve(&self, authorities: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.store(authorities.len(), Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[test]
fn certificates_of_any_authority_are_requested() {
    let scene = Scene::new();
    run(async {
        for versions in [&[&rustls::version::TLS12][..], &[&rustls::version::TLS13]] {
            let named = Arc::new(NamedAuthorities(AtomicUsize::new(usize::MAX)));
            let config = Arc::new(speaking(versions).with_client_cert_resolver(named.clone()));
            let socket = TcpStream::connect(scene.server.bound()).await.unwrap();
            TlsConnector::from(config)
                .connect(ServerName::try_from("localhost").unwrap(), socket)
                .await
                .unwrap();
            // A client whose certificate is of none of the named authorities would send none.
            assert_eq!(named.0.load(Ordering::Relaxed), 0);
        }
    });
}

#[test]
fn router_port_serves_no_rest() {
    let listen = |config: &mut model::config::Config| {
        config.router.enabled = true;
        config.router.listen = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    };
    let scene = Scene::on(TestServer::with(Clock::system(), listen), false);
    let shown = scene.server.admin.get("/edge-routers/built-in").expect(200);
    let address = shown.data()["supportedProtocols"]["tls"]
        .as_str()
        .unwrap()
        .strip_prefix("tls://")
        .unwrap()
        .to_owned();
    let at: SocketAddr = address.parse().unwrap();
    assert_ne!(at, scene.server.bound());
    run(async {
        for at in [at, scene.server.bound()] {
            let stream = scene
                .client
                .tls(at, &[], vec![scene.client.leaf.clone()], false)
                .await;
            Sdk::connect(stream, scene.client.token(), Options::GO)
                .await
                .unwrap();
        }
        let mut stream = scene
            .client
            .tls(at, &[], vec![scene.client.leaf.clone()], false)
            .await;
        stream.write_all(REQUEST).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(answer, b"", "this port serves no REST");
    });
}

#[test]
fn disabled_router_leaves_rest_working() {
    let server = TestServer::start();
    let member = Member::new(&server, "member");
    run(async {
        let mut stream = member
            .tls(server.bound(), &[], vec![member.leaf.clone()], false)
            .await;
        stream.write_all(REQUEST).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    });
    assert!(server.router().id().is_none() && server.router().channels().is_empty());
}
