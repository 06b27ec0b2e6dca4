//! The controller under attack.

use std::{
    net::SocketAddr,
    path::Path,
    process::Child,
    time::{Duration, Instant},
};

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject};
use serde_json::{Value, json};

use super::{
    process,
    wire::{Manner, Wire},
};

/// The password of the administrator.
pub const PASSWORD: &str = "measured";
/// The timeout of the first log-in.
const PATIENCE: Duration = Duration::from_secs(30);
pub const MANAGEMENT: &str = "/edge/management/v1";
pub const CLIENT: &str = "/edge/client/v1";
pub const BY_CERTIFICATE: &str = "/edge/client/v1/authenticate?method=cert";

/// A running controller; dropping it stops it.
pub struct Controller {
    process: Child,
    pub at: SocketAddr,
    pub plain: Manner,
    /// The header line of the administrator's session.
    pub admin: String,
}

impl Controller {
    /// Starts a controller on a new file in a directory, with further environment variables.
    pub fn start(directory: &Path, variables: &[(&str, &str)]) -> Self {
        let password = directory.join("password");
        std::fs::write(&password, PASSWORD).expect("a file");
        let own = [
            ("OVERKEEP_LOG_LEVEL", "error"),
            (
                "OVERKEEP_ADMIN_PASSWORD_FILE",
                password.to_str().expect("a path"),
            ),
        ];
        let (process, at) = process::start(&directory.join("data"), &[&own, variables].concat());
        Self::of(process, at)
    }

    /// A process whose administrator has the name `admin` and the password [`PASSWORD`]. Waits
    /// until it lets the administrator in.
    pub fn of(process: Child, at: SocketAddr) -> Self {
        let mut controller = Self {
            process,
            at,
            plain: Manner::plain(),
            admin: String::new(),
        };
        let (path, body, start) = (
            format!("{CLIENT}/authenticate?method=password"),
            credentials("admin", PASSWORD),
            Instant::now(),
        );
        loop {
            let answer = Wire::open(at, &controller.plain)
                .and_then(|mut wire| wire.ask("POST", &path, "", &body));
            match answer {
                Ok(answer) if answer.status == 200 => {
                    controller.admin = session(&answer.body);
                    return controller;
                }
                other => assert!(
                    start.elapsed() < PATIENCE,
                    "no log-in: {:?}",
                    other.map(|answer| answer.status)
                ),
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn open(&self) -> Wire {
        Wire::open(self.at, &self.plain).expect("a connection")
    }

    /// Creates a record and returns its id.
    pub fn create(&self, path: &str, body: &Value) -> String {
        let answer = self
            .open()
            .ask(
                "POST",
                &format!("{MANAGEMENT}{path}"),
                &self.admin,
                &body.to_string(),
            )
            .expect("an answer");
        assert_eq!(
            answer.status,
            201,
            "{}",
            String::from_utf8_lossy(&answer.body)
        );
        text(&answer.body, "/data/id")
    }

    /// Enrolls a new identity. Returns its id, and how to connect with its certificate.
    pub fn enrolled(&self, name: &str) -> (String, Manner) {
        let body = json!({ "name": name, "type": "Device", "isAdmin": false, "enrollment": { "ott": true } });
        let id = self.create("/identities", &body);
        let shown = self
            .open()
            .ask(
                "GET",
                &format!("{MANAGEMENT}/identities/{id}"),
                &self.admin,
                "",
            )
            .expect("an identity");
        let token = text(&shown.body, "/data/enrollment/ott/token");
        let key = KeyPair::generate().expect("a key");
        let request = CertificateParams::default()
            .serialize_request(&key)
            .and_then(|request| request.pem())
            .expect("a request");
        let enroll = format!(
            "POST {CLIENT}/enroll?method=ott&token={token} HTTP/1.1\r\nhost: bench\r\naccept: application/json\r\n\
             content-type: application/x-pem-file\r\ncontent-length: {}\r\n\r\n{request}",
            request.len()
        );
        let mut wire = self.open();
        wire.send(enroll.as_bytes()).expect("a request");
        let chain = text(&wire.answer().expect("a certificate").body, "/data/cert");
        let chain = CertificateDer::pem_slice_iter(chain.as_bytes())
            .map(|der| der.expect("PEM"))
            .collect();
        (
            id,
            Manner::showing(
                chain,
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            ),
        )
    }

    /// The id of its process.
    #[allow(dead_code, reason = "only the relay bench asks")]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The CPU time it has used, in seconds.
    pub fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))
            .expect("its accounts");
        let numbers = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(11)
            .take(2);
        // Linux counts these in hundredths of a second on every machine.
        numbers
            .map(|ticks| ticks.parse::<f64>().expect("a number") / 100.0)
            .sum()
    }

    /// The memory it uses, in KiB.
    pub fn memory(&self) -> f64 {
        process::resident(&self.process) as f64 / 1024.0
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn credentials(username: &str, password: &str) -> String {
    json!({ "username": username, "password": password }).to_string()
}

/// The header line of the session that an answer opens.
pub fn session(answer: &[u8]) -> String {
    format!("zt-session: {}\r\n", text(answer, "/data/token"))
}

fn text(answer: &[u8], pointer: &str) -> String {
    let json: Value = serde_json::from_slice(answer)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(answer)));
    json.pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("{pointer}: {json}"))
        .to_owned()
}
