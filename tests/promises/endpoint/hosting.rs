//! Hosting by configs: `host.v1` and `host.v2` say where connections lead to.

use std::time::Instant;

use client::{Connection, Hosted, Right, Service, Session, SessionError, host};
use serde_json::{Value as Json, json};

use super::{
    Network, POLL,
    traffic::{PATIENCE, echo},
};
use crate::{
    harness::fresh,
    router::scene::{run, runtime},
};

/// A network whose host hosts what its configs say.
struct Scene {
    network: Network,
    service: String,
    session: Session,
}

impl Scene {
    fn new() -> Self {
        let network = Network::new(true);
        let filter = format!("name=\"{}\"", network.service);
        let found = network.server.admin.list("/services", &filter, "");
        let service = found.expect(200).each("id")[0].to_owned();
        let (hosting, session) = run(async {
            let hosting = network.session(&network.host).await.0;
            (hosting, network.session(&network.dialer).await.0)
        });
        runtime().spawn(host(hosting, Hosted::Configured, POLL));
        Self {
            network,
            service,
            session,
        }
    }

    /// Makes a config of a type. Returns its id.
    fn config(&self, kind: &str, data: &Json) -> String {
        let admin = &self.network.server.admin;
        let types = admin.list("/config-types", &format!("name=\"{kind}\""), "");
        let kind = types.expect(200).each("id")[0].to_owned();
        let body = json!({ "name": fresh("config"), "configTypeId": kind, "data": data });
        admin.post("/configs", body).expect(201).id()
    }

    fn use_configs(&self, configs: &[String]) {
        let path = format!("/services/{}", self.service);
        let body = json!({ "configs": configs });
        self.network.server.admin.patch(&path, body).expect(200);
    }

    fn dial(&self, instance: Option<&str>, app_data: &Json) -> Result<Connection, SessionError> {
        run(async {
            let service = self.session.service(&self.network.service).await?;
            let said = app_data.to_string();
            let said = (!app_data.is_null()).then_some(said.as_bytes());
            self.session.dial(&service, instance, said).await
        })
    }

    /// Dials until that gives a value.
    fn until<T>(&self, mut asked: impl FnMut(&Self) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(value) = asked(self) {
                return value;
            }
            assert!(Instant::now() < end, "it did not happen");
            std::thread::sleep(POLL / 4);
        }
    }

    /// The words of the refusal, once the host answers.
    fn refusal(&self, app_data: &Json) -> String {
        self.until(|scene| {
            let refused = scene.dial(None, app_data).err()?.to_string();
            (!refused.contains("has no terminators")).then_some(refused)
        })
    }

    /// The terminators of the service, as the controller has them.
    fn terminators(&self) -> Vec<Json> {
        let filter = format!("service=\"{}\"", self.service);
        let found = self.network.server.admin.list("/terminators", &filter, "");
        found.expect(200).data().as_array().unwrap().clone()
    }
}

/// Whether what is sent comes back.
fn echoes(connection: Connection, text: &[u8]) -> bool {
    run(async {
        let (mut sender, mut receiver) = connection.split();
        sender.send(text).await.unwrap();
        let back = tokio::time::timeout(PATIENCE, receiver.receive()).await;
        back.unwrap().unwrap().as_deref() == Some(text)
    })
}

/// A `host.v1` that leads to this server.
fn fixed(address: &str) -> Json {
    let (host, port) = address.rsplit_once(':').unwrap();
    let port: u16 = port.parse().unwrap();
    json!({ "protocol": "tcp", "address": host, "port": port })
}

#[test]
fn configs_are_followed() {
    let scene = Scene::new();
    let first = run(echo());
    let config = scene.config("host.v1", &fixed(&first));
    scene.use_configs(std::slice::from_ref(&config));
    let connection = scene.until(|scene| scene.dial(None, &Json::Null).ok());
    assert!(echoes(connection, b"as the config says"));
    // Another target, which nobody listens at.
    let body = json!({ "data": fixed("127.0.0.1:1") });
    let admin = &scene.network.server.admin;
    admin.patch(&format!("/configs/{config}"), body).expect(200);
    let refused = scene.until(|scene| {
        let refused = scene.dial(None, &Json::Null).err()?.to_string();
        refused.contains("cannot be reached").then_some(refused)
    });
    assert!(refused.contains("refused"), "{refused}");
    // No config at all.
    scene.use_configs(&[]);
    scene.until(|scene| scene.terminators().is_empty().then_some(()));
}

#[test]
fn dialers_reach_what_is_allowed_only() {
    let scene = Scene::new();
    let address = run(echo());
    let (_, port) = address.rsplit_once(':').unwrap();
    let number: u16 = port.parse().unwrap();
    let config = json!({
        "forwardProtocol": true,
        "allowedProtocols": ["tcp"],
        "forwardAddress": true,
        "allowedAddresses": ["10.0.0.0/8", "localhost", "*.internal"],
        "forwardAddressTranslations": [
            { "from": "10.9.0.0", "to": "127.0.0.0", "prefixLength": 16 },
        ],
        "forwardPort": true,
        "allowedPortRanges": [{ "low": number, "high": number }],
        "allowedSourceAddresses": ["127.0.0.0/8"],
    });
    scene.use_configs(&[scene.config("host.v1", &config)]);
    let asking = |host: &str, ip: &str, port: &str, source: &str| {
        json!({
            "dst_protocol": "tcp", "dst_hostname": host, "dst_ip": ip, "dst_port": port,
            "source_addr": source,
        })
    };
    for (app_data, expected) in [
        (asking("example.org", "", port, ""), "address example.org"),
        (asking("", "127.0.0.1", port, ""), "address 127.0.0.1"),
        (asking("localhost", "", "1", ""), "port 1"),
        (
            asking("localhost", "", port, "10.0.0.1"),
            "source address 10.0.0.1",
        ),
        (Json::Null, "dst_protocol"),
    ] {
        let refused = scene.refusal(&app_data);
        assert!(refused.contains(expected), "{app_data}: {refused}");
    }
    for app_data in [
        asking("LocalHost", "", port, ""),
        asking("", "10.9.0.1", port, "127.0.0.7"),
    ] {
        let connection = scene.dial(None, &app_data).unwrap();
        assert!(echoes(connection, b"what was asked for"));
    }
}

#[test]
fn terminators_are_like_their_configs() {
    let scene = Scene::new();
    let address = run(echo());
    let terminator = |options: Json| {
        let mut config = fixed(&address);
        config["listenOptions"] = options;
        config
    };
    let config = json!({ "terminators": [
        terminator(json!({ "cost": 40, "precedence": "required", "identity": "one" })),
        terminator(json!({ "bindUsingEdgeIdentity": true })),
    ] });
    scene.use_configs(&[scene.config("host.v2", &config)]);
    let both = scene.until(|scene| Some(scene.terminators()).filter(|all| all.len() == 2));
    let name = |terminator: &Json| terminator["identity"].as_str().unwrap().to_owned();
    let one = both.iter().find(|one| name(one) == "one").unwrap();
    assert_eq!(
        (&one["cost"], &one["precedence"]),
        (&json!(40), &json!("required"))
    );
    let other = both.iter().find(|other| name(other) != "one").unwrap();
    assert_eq!(
        (&other["cost"], &other["precedence"]),
        (&json!(0), &json!("default"))
    );
    for instance in ["one", &name(other)] {
        let connection = scene.until(|scene| scene.dial(Some(instance), &Json::Null).ok());
        assert!(echoes(connection, instance.as_bytes()));
    }
}

#[test]
fn failing_checks_make_terminators_fail_until_they_pass() {
    let scene = Scene::new();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    // The server is not there when hosting begins.
    drop(server);
    let mut config = fixed(&address.to_string());
    config["portChecks"] = json!([{
        "address": address.to_string(), "interval": "100ms", "timeout": "5s", "actions": [
            { "trigger": "fail", "action": "mark unhealthy" },
            { "trigger": "pass", "action": "mark healthy" },
        ],
    }]);
    scene.use_configs(&[scene.config("host.v1", &config)]);
    let precedence = |scene: &Scene, expected: &str| {
        let all = scene.terminators();
        all.first()
            .is_some_and(|one| one["precedence"] == expected)
            .then_some(())
    };
    scene.until(|scene| precedence(scene, "failed"));
    let server = std::net::TcpListener::bind(address).unwrap();
    scene.until(|scene| precedence(scene, "default"));
    drop(server);
    scene.until(|scene| precedence(scene, "failed"));
}

#[test]
fn services_come_and_go() {
    let scene = Scene::new();
    let address = run(echo());
    let config = scene.config("host.v1", &fixed(&address));
    scene.use_configs(std::slice::from_ref(&config));
    scene.until(|scene| scene.dial(None, &Json::Null).ok());
    let server = &scene.network.server;
    let name = fresh("later");
    let later = server.service(&name, json!({ "configs": [config] }));
    let at = |id: &str| format!("@{id}");
    server.service_policy("Dial", &[&at(&scene.network.dialer_id)], &[&at(&later)]);
    server.service_policy("Bind", &[&at(&scene.network.host_id)], &[&at(&later)]);
    let connection = scene.until(|scene| {
        run(async {
            let found: Service = scene.session.service(&name).await.ok()?;
            assert!(found.grants(Right::Dial) || !found.grants(Right::Bind));
            scene.session.dial(&found, None, None).await.ok()
        })
    });
    assert!(echoes(connection, b"a later service"));
    server
        .admin
        .delete(&format!("/services/{later}"))
        .expect(200);
    // The other one stays.
    assert!(echoes(
        scene.dial(None, &Json::Null).unwrap(),
        b"the first service"
    ));
}
