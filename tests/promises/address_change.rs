//! A controller moves to another address as documented, without silently losing clients.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use ureq::tls::{Certificate, ClientCert, RootCerts, TlsConfig};

use crate::harness::{Answer, Key, listed, trusting};

/// A port on which nothing listens at this moment.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// A controller in its own process, with given listen and advertise addresses.
struct Moving {
    process: Child,
    url: String,
}

impl Moving {
    fn start(directory: &Path, listen: &str, advertise: &str) -> Self {
        fs::write(directory.join("given"), "given-by-hand").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_overkeep"));
        command.args([
            "run",
            "--data",
            "data",
            "--admin-password-file",
            "given",
            "--listen",
            listen,
            "--advertise",
            advertise,
        ]);
        command
            .env_clear()
            .env("OVERKEEP_PASSWORDS_COST", "10")
            .env("OVERKEEP_ROUTER_ENABLED", "false")
            .current_dir(directory);
        let mut process = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let first = BufReader::new(process.stdout.take().unwrap())
            .lines()
            .next()
            .unwrap()
            .unwrap();
        let url = first
            .split_whitespace()
            .find(|word| word.starts_with("https://"))
            .unwrap()
            .to_owned();
        Self { process, url }
    }

    /// Stops it and returns its log.
    fn stop(mut self) -> String {
        assert!(
            Command::new("kill")
                .args(["-TERM", &self.process.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        let mut log = String::new();
        self.process
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut log)
            .unwrap();
        assert!(self.process.wait().unwrap().success(), "{log}");
        log
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A client like the SDKs: it knows its one-time token, keeps the address in it, and verifies the
/// host name.
struct Client {
    url: String,
    agent: ureq::Agent,
}

impl Client {
    /// Enrolls with a token, and nothing else.
    fn enroll(jwt: &str) -> Self {
        let claims = URL_SAFE_NO_PAD
            .decode(jwt.split('.').nth(1).unwrap())
            .unwrap();
        let claims: Json = serde_json::from_slice(&claims).unwrap();
        let url = claims["iss"]
            .as_str()
            .unwrap()
            .trim_end_matches('/')
            .to_owned();
        let anybody = agent(TlsConfig::builder().disable_verification(true));
        let text = anybody
            .get(format!("{url}/.well-known/est/cacerts"))
            .call()
            .unwrap()
            .body_mut()
            .read_to_string()
            .unwrap();
        let roots: Vec<Certificate<'static>> = listed(&text)
            .iter()
            .map(|der| Certificate::from_der(der).to_owned())
            .collect();
        let roots = RootCerts::Specific(Arc::new(roots));
        let key = Key::new();
        let enrolling = agent(TlsConfig::builder().root_certs(roots.clone()));
        let path = format!(
            "{url}/edge/client/v1/enroll?method=ott&token={}",
            claims["jti"].as_str().unwrap()
        );
        let mut issued = enrolling
            .post(path)
            .content_type("application/pkcs10")
            .send(key.request())
            .unwrap();
        let issued: Json = issued.body_mut().read_json().unwrap();
        let chain = issued["data"]["cert"].as_str().unwrap();
        const END: &str = "-----END CERTIFICATE-----";
        let blocks = chain
            .split_inclusive(END)
            .filter(|block| block.contains(END));
        let chain: Vec<Certificate<'static>> = blocks
            .map(|pem| Certificate::from_pem(pem.as_bytes()).unwrap())
            .collect();
        let own = ClientCert::new_with_certs(&chain, key.private());
        Self {
            url,
            agent: agent(
                TlsConfig::builder()
                    .root_certs(roots)
                    .client_cert(Some(own)),
            ),
        }
    }

    /// Logs in at the address that it keeps.
    fn logs_in(&self) -> bool {
        let answer = self
            .agent
            .post(format!(
                "{}/edge/client/v1/authenticate?method=cert",
                self.url
            ))
            .send_empty();
        answer.is_ok_and(|answer| answer.status() == 200)
    }

    /// The address that the answer to a request names. libziti moves there if it is another one
    /// than its own, and stores it.
    fn told(&self, method: &str, path: &str) -> Option<String> {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .body(())
            .unwrap();
        let answer = match self.agent.run(request) {
            Ok(answer) => answer.headers().get("ziti-ctrl-address").cloned(),
            Err(error) => panic!("{path}: {error}"),
        };
        answer.map(|address| address.to_str().unwrap().to_owned())
    }
}

fn agent(tls: ureq::tls::TlsConfigBuilder) -> ureq::Agent {
    let tls = tls
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build();
    ureq::Agent::config_builder()
        .tls_config(tls)
        .proxy(None)
        .http_status_as_error(false)
        .build()
        .into()
}

/// A new identity and its token.
fn token(url: &str, name: &str) -> String {
    let admin = trusting(url).log_in("admin", "given-by-hand");
    let body =
        json!({ "name": name, "type": "Device", "isAdmin": false, "enrollment": { "ott": true } });
    let id = admin.post("/identities", body).expect(201).id();
    let shown: Answer = admin.get(&format!("/identities/{id}")).expect(200);
    shown.data()["enrollment"]["ott"]["jwt"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn both_listed_addresses_work() {
    let place = TempDir::new().unwrap();
    let (old, new) = (
        format!("localhost:{}", free_port()),
        format!("127.0.0.1:{}", free_port()),
    );
    let (old_place, new_place) = (old.replace("localhost", "127.0.0.1"), new.clone());
    let said = |log: &str| {
        log.lines()
            .filter(|line| line.contains("enrolled under"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };

    let running = Moving::start(place.path(), &old_place, &old);
    let first = Client::enroll(&token(&running.url, "first"));
    assert!(first.logs_in() && first.url.contains(&old), "{}", first.url);
    assert!(said(&running.stop()).is_empty());

    // Step one: advertise both, the new one first.
    let running = Moving::start(
        place.path(),
        &format!("{new_place},{old_place}"),
        &format!("{new},{old}"),
    );
    assert!(running.url.contains(&new));
    let second = Client::enroll(&token(&running.url, "second"));
    assert!(
        second.url.contains(&new) && second.logs_in(),
        "{}",
        second.url
    );
    assert!(first.logs_in(), "the old address works as before");
    let told = said(&running.stop());
    assert!(
        told.len() == 1
            && told[0].contains(&format!(
                "1 identity and 0 edge routers enrolled under {old}; it is still advertised"
            )),
        "{told:?}"
    );

    // Dropping the old address too early warns about the clients that still use it.
    let running = Moving::start(place.path(), &new_place, &new);
    assert!(second.logs_in() && !first.logs_in());
    let mut status = Command::new(env!("CARGO_BIN_EXE_overkeep"));
    let status = status
        .args(["pki", "status", "--data", "data"])
        .env_clear()
        .current_dir(place.path())
        .output()
        .unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(
        status.contains(&format!(
            "1 identity and 0 edge routers enrolled under {old}; it is no longer advertised"
        )),
        "{status}"
    );
    // Step two: a client moves to the new address with its certificate.
    let moved = Client {
        url: first.url.replace(&old, &new),
        ..first
    };
    assert!(moved.logs_in());
    let told = said(&running.stop());
    assert!(
        told.len() == 1 && told[0].contains("WARN") && told[0].contains("no longer advertised"),
        "{told:?}"
    );

    // Back at the old address, the second client would be lost.
    let told = said(&Moving::start(place.path(), &old_place, &old).stop());
    assert!(
        told.len() == 1 && told[0].contains(&format!("enrolled under {new}")),
        "{told:?}"
    );
}

#[test]
fn answers_name_the_first_of_two() {
    let place = TempDir::new().unwrap();
    let (old, new) = (
        format!("localhost:{}", free_port()),
        format!("127.0.0.1:{}", free_port()),
    );
    let (old_place, new_place) = (old.replace("localhost", "127.0.0.1"), new.clone());
    let running = Moving::start(place.path(), &old_place, &old);
    let mut client = Client::enroll(&token(&running.url, "client"));
    assert_eq!(
        client.told("GET", "/version"),
        None,
        "one address is advertised"
    );
    running.stop();

    let running = Moving::start(
        place.path(),
        &format!("{new_place},{old_place}"),
        &format!("{new},{old}"),
    );
    let moved = format!("https://{new}");
    // Also answers that refuse, and those to requests that already go to this address.
    for _ in 0..2 {
        for path in [
            "/version",
            "/edge/client/v1/version",
            "/edge/client/v1/current-api-session",
            "/edge/management/v1/services",
            "/nothing",
        ] {
            assert_eq!(
                client.told("GET", path).as_deref(),
                Some(&*moved),
                "{path} at {}",
                client.url
            );
        }
        assert_eq!(
            client
                .told("POST", "/edge/client/v1/authenticate?method=cert")
                .as_deref(),
            Some(&*moved)
        );
        client.url = moved.clone();
        assert!(client.logs_in());
    }
    running.stop();
    // The old one is not needed any more.
    let running = Moving::start(place.path(), &new_place, &new);
    assert!(client.logs_in() && client.told("GET", "/version").is_none());
    running.stop();
    // Several listening addresses are not an order for clients.
    let running = Moving::start(place.path(), &format!("{new_place},{old_place}"), &new);
    assert_eq!(client.told("GET", "/version"), None);
    running.stop();
}

#[test]
fn first_start_on_loopback_names_advertise() {
    for (advertise, asks) in [
        ("127.0.0.1:1280", true),
        ("localhost:1280,[::1]:1280", true),
        ("localhost:1280,overlay.example.org:1280", false),
    ] {
        let place = TempDir::new().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_overkeep"));
        command
            .args([
                "run",
                "--data",
                "data",
                "--listen",
                "127.0.0.1:0",
                "--advertise",
                advertise,
            ])
            .env_clear()
            .current_dir(place.path());
        let mut process = command
            .env("OVERKEEP_PASSWORDS_COST", "10")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap())
            .lines()
            .map(Result::unwrap);
        let before: Vec<String> = lines
            .by_ref()
            .take_while(|line| !line.starts_with("next:"))
            .collect();
        assert_eq!(before.len(), 3, "{before:?}");
        assert!(
            Command::new("kill")
                .args(["-TERM", &process.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        assert!(process.wait().unwrap().success());
        let rest: Vec<String> = lines.collect();
        let (certificate, rest): (Vec<String>, Vec<String>) = rest
            .into_iter()
            .partition(|line| line.starts_with("certificate: "));
        assert_eq!(certificate.len(), 1, "{certificate:?}");
        assert_eq!(rest.len(), usize::from(asks), "{rest:?}");
        assert!(
            rest.iter()
                .all(|line| line.starts_with("advertise: ") && line.contains("--advertise")),
            "{rest:?}"
        );
    }
}
