//! The controller under measurement.

use std::{
    net::SocketAddr,
    path::Path,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{client::Client, corpus::PASSWORD, process, spent::Spent};

pub const MANAGEMENT: &str = "/edge/management/v1";
pub const CLIENT: &str = "/edge/client/v1";
pub const OVERKEEP: &str = "/overkeep/v1";

/// A running controller; dropping it stops it.
pub struct Server {
    process: Child,
    pub at: SocketAddr,
}

impl Server {
    /// Starts a controller on a data file.
    pub fn start(file: &Path) -> Self {
        // Higher time-outs, because hundreds of clients connect at the same time on the same cores.
        let patient = [
            ("OVERKEEP_HTTP_HANDSHAKE_TIMEOUT", "1m"),
            ("OVERKEEP_HTTP_CLIENT_TIMEOUT", "1m"),
        ];
        let (process, at) = process::start(
            file,
            &[&[("OVERKEEP_LOG_LEVEL", "warn")], patient.as_slice()].concat(),
        );
        Self { process, at }
    }

    /// A connection with the session of a user, and the session token.
    pub fn login(&self, username: &str) -> (Client, String) {
        let body = json!({ "username": username, "password": PASSWORD }).to_string();
        let mut client = Client::new(self.at, "");
        let token = token(client.send(
            "POST",
            &format!("{CLIENT}/authenticate?method=password"),
            &body,
        ));
        client.carry(&token);
        (client, token)
    }

    /// Connections that carry a session token.
    pub fn clients(&self, token: &str, count: usize) -> Vec<Client> {
        (0..count).map(|_| Client::new(self.at, token)).collect()
    }

    /// The CPU time spent so far.
    pub fn spent(&self) -> Spent {
        Spent::of(self.process.id())
    }

    /// Waits until its background work is done: what the access audit loads once is not part of the
    /// cost of a request.
    pub fn settle(&self) {
        const LOOK: Duration = Duration::from_millis(100);
        const LEAST: f64 = 0.02;
        let is_busy = || {
            let before = self.spent();
            thread::sleep(LOOK);
            self.spent().since(&before) > LEAST * LOOK.as_secs_f64()
        };
        let start = Instant::now();
        while is_busy() {
            assert!(
                start.elapsed() < Duration::from_secs(120),
                "it never becomes idle"
            );
        }
    }

    /// The resident memory in bytes.
    pub fn resident(&self) -> u64 {
        process::resident(&self.process)
    }
}

impl Drop for Server {
    /// Stops it with SIGTERM, so that the file is closed properly for the next start.
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .arg(self.process.id().to_string())
            .status();
        let _ = self.process.wait();
    }
}

/// The session token in the answer to a log-in.
pub fn token(answer: &[u8]) -> String {
    parsed(answer)["data"]["token"]
        .as_str()
        .expect("a token")
        .to_owned()
}

/// The JSON of an answer.
pub fn parsed(answer: &[u8]) -> Value {
    serde_json::from_slice(answer).expect("JSON")
}

/// Creates a record and returns its id.
pub fn create(client: &mut Client, path: &str, body: &Value) -> String {
    let answer = parsed(client.send("POST", &format!("{MANAGEMENT}{path}"), &body.to_string()));
    answer["data"]["id"].as_str().expect("an id").to_owned()
}
