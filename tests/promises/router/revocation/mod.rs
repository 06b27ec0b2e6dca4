//! Loss of access: everything that depended on it is closed, and everything else stays open.

mod causes;
mod others;

use std::time::Duration;

use model::{clock::Clock, config::Span};

use serde_json::json;

use super::{
    scene::{Member, Scene, run, soon},
    sdk::{Conn, Event, Host, Options, PATIENCE, Sdk},
};

use crate::{
    explain::verify,
    harness::{TestServer, fresh},
};

/// A circuit of other identities that must stay open.
struct Bystander {
    client: Conn,
    host: Conn,
    _listener: Host,
}

impl Bystander {
    async fn beside(scene: &Scene) -> Self {
        let service = scene
            .server
            .service(&fresh("bystander"), json!({ "encryptionRequired": false }));
        let (host, client) = (
            Member::new(&scene.server, "other-host"),
            Member::new(&scene.server, "other-client"),
        );
        scene.server.service_policy(
            "Bind",
            &[&format!("@{}", host.id)],
            &[&format!("@{service}")],
        );
        scene.server.service_policy(
            "Dial",
            &[&format!("@{}", client.id)],
            &[&format!("@{service}")],
        );
        let mut listener = host
            .connect(&scene.server, Options::GO)
            .await
            .host(&host.session(&service, "Bind"))
            .await
            .unwrap();
        let sdk = client.connect(&scene.server, Options::GO).await;
        let token = client.session(&service, "Dial");
        let (client, host) = tokio::join!(sdk.dial(&token), listener.accept());
        Self {
            client: client.unwrap(),
            host,
            _listener: listener,
        }
    }

    async fn stands(&mut self) {
        self.client.send(b"still here").await;
        assert_eq!(self.host.data().await, b"still here");
    }
}

/// What ends: the client's circuit, the host's binding, or a channel.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Circuit,
    CircuitAndBinding,
    ClientsChannel,
    HostsChannel,
}

/// Runs one cause on a new scene and checks what it ends.
fn ends(of: Ends, cause: impl Fn(&Scene, &Sdk)) {
    ends_on(Scene::new(), of, cause);
}

fn ends_on(scene: Scene, of: Ends, cause: impl Fn(&Scene, &Sdk)) {
    run(async {
        let mut bystander = Bystander::beside(&scene).await;
        let (mut client, mut host, mut listener) = scene.connected(Options::GO).await;
        client.send(b"before").await;
        assert_eq!(host.data().await, b"before");
        cause(&scene, &client.sdk);
        match of {
            Ends::ClientsChannel => client.sdk.closed().await,
            _ => {
                let ended = client.ended().await;
                assert!(!ended.text.is_empty(), "{ended:?}");
                if of != Ends::HostsChannel {
                    assert!(ended.structured.unwrap().contains("\"retryHint\":2"));
                }
            }
        }
        match of {
            Ends::HostsChannel => host.sdk.closed().await,
            _ => assert!(!host.ended().await.text.is_empty()),
        }
        if of == Ends::CircuitAndBinding {
            assert_eq!(listener.ended().await.text, "session ended");
            assert!(soon(|| scene
                .server
                .admin
                .list(
                    "/terminators",
                    &format!("service = \"{}\"", scene.service),
                    ""
                )
                .expect(200)
                .total()
                == 0));
        } else if of != Ends::HostsChannel {
            assert!(listener.is_idle() && !listener.sdk.is_closed());
        }
        bystander.stands().await;
        assert_eq!(scene.server.router().circuits().len(), 1);
    });
}

fn delete(scene: &Scene, path: &str) {
    scene.server.admin.delete(path).expect(200);
}
