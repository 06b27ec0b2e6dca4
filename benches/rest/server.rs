//! The controller under measurement: the program itself, as a child process, so that its CPU time is its own.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use super::client::Client;

const PASSWORD: &str = "measured";
pub const MANAGEMENT: &str = "/edge/management/v1";
pub const CLIENT: &str = "/edge/client/v1";

/// A running controller; dropping it ends it.
pub struct Server {
    process: Child,
    pub at: SocketAddr,
}

impl Server {
    /// Starts one on a new file in a directory.
    pub fn start(directory: &Path) -> Self {
        let password = directory.join("password");
        std::fs::write(&password, PASSWORD).expect("a file");
        let mut process = Command::new(env!("CARGO_BIN_EXE_overkeep"))
            .args(["run", "--listen", "127.0.0.1:0", "--data"])
            .arg(directory.join("data"))
            .arg("--admin-password-file")
            .arg(password)
            .env("OVERKEEP_LOG_LEVEL", "warn")
            .stdout(Stdio::piped())
            .spawn()
            .expect("a controller");
        let mut said = String::new();
        let out = process.stdout.take().expect("its words");
        BufReader::new(out).read_line(&mut said).expect("a line");
        let at = said.split_whitespace().find_map(|word| word.parse().ok()).expect("its address");
        Self { process, at }
    }

    /// A connection with the session of a user.
    pub fn login(&self, username: &str) -> (Client, String) {
        let body = json!({ "username": username, "password": PASSWORD }).to_string();
        let answer: Value =
            serde_json::from_slice(Client::new(self.at, "").send("POST", &format!("{CLIENT}/authenticate?method=password"), &body))
                .expect("an answer");
        let token = answer["data"]["token"].as_str().expect("a token").to_owned();
        (Client::new(self.at, &token), token)
    }

    /// Seconds of CPU it has used.
    pub fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("its accounts");
        let numbers = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        // Linux counts these in hundredths of a second on every machine.
        numbers.map(|ticks| ticks.parse::<f64>().expect("a number") / 100.0).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Creates a record and gives its id.
pub fn create(client: &mut Client, path: &str, body: &Value) -> String {
    let answer: Value = serde_json::from_slice(client.send("POST", &format!("{MANAGEMENT}{path}"), &body.to_string())).expect("an answer");
    answer["data"]["id"].as_str().expect("an id").to_owned()
}

/// A user without administrator's rights, who logs in with a password.
pub fn user(admin: &mut Client, name: &str) -> String {
    let id = create(admin, "/identities", &json!({ "name": name, "type": "Device", "isAdmin": false }));
    let credential = json!({ "identityId": id, "method": "updb", "username": name, "password": PASSWORD });
    create(admin, "/authenticators", &credential);
    id
}
