//! A service in one command, and an identity in one line: `publish`, `unpublish` and `invite`.

mod invite;
mod publish;
mod unpublish;

use serde_json::{Value as Json, json};

use crate::{
    command_line::{Ran, on_host},
    harness::{TestServer, fresh},
    short_commands::LoggedIn,
};

/// The kinds of records that a publication has.
const KINDS: [&str; 3] = ["configs", "services", "service-policies"];

/// A controller with a host, and somebody with a role.
struct Office {
    server: TestServer,
    host: String,
    user: String,
    role: String,
    service: String,
}

impl Office {
    fn new() -> Self {
        let server = TestServer::with_router();
        let [host, user, role, service] = ["server", "alice", "sales", "web"].map(fresh);
        // They can log in and use a router: without that, nobody has a right.
        server.user(&host, json!({}));
        server.user(&user, json!({ "roleAttributes": [role] }));
        Self {
            server,
            host,
            user,
            role,
            service,
        }
    }

    /// Publishes the service with both configs.
    fn publish(&self, more: &[&str]) -> Ran {
        let to = format!("#{}", self.role);
        let words = [
            "publish",
            &self.service,
            "--host",
            &self.host,
            "--target",
            "127.0.0.1:80",
            "--address",
            "web.internal:8080",
            "--to",
            &to,
        ];
        on_host(&self.server, &[&words, more].concat())
    }

    fn unpublish(&self, more: &[&str]) -> Ran {
        on_host(
            &self.server,
            &[&["unpublish", self.service.as_str()], more].concat(),
        )
    }

    /// The whole network by names.
    fn network(&self) -> Json {
        let network = self.server.admin.get("/overkeep/v1/network").expect(200);
        network.data().clone()
    }

    /// A record by its name.
    fn record(&self, kind: &str, name: &str) -> Json {
        self.find(kind, name)
            .unwrap_or_else(|| panic!("no record of {kind} has the name {name}"))
    }

    fn find(&self, kind: &str, name: &str) -> Option<Json> {
        let network = self.network();
        let records = network[kind].as_array().unwrap();
        records
            .iter()
            .find(|record| record["name"] == name)
            .cloned()
    }

    /// The names of the records whose names begin with that of the service.
    fn published(&self) -> Vec<String> {
        let network = self.network();
        let records = KINDS
            .iter()
            .flat_map(|kind| network[*kind].as_array().unwrap());
        records
            .map(|record| record["name"].as_str().unwrap().to_owned())
            .filter(|name| name.starts_with(&self.service))
            .collect()
    }

    /// A record's name: that of the service with an ending.
    fn named(&self, ending: &str) -> String {
        format!("{}.{ending}", self.service)
    }

    /// The newest change in the history, as rows.
    fn last_change(&self) -> Vec<Json> {
        let rows = self
            .server
            .admin
            .get("/overkeep/v1/history?limit=50&filter=action%20in%20%5B%22create%22%2C%22update%22%2C%22delete%22%5D")
            .expect(200);
        let rows = rows.data().as_array().unwrap().clone();
        // The first row of a change does not name it.
        let change = |row: &Json| row["change"].as_u64().or(row["sequence"].as_u64());
        let last = change(&rows[0]);
        rows.into_iter().filter(|row| change(row) == last).collect()
    }

    /// Whether an identity has a right to the service.
    fn may(&self, right: &str, identity: &str) -> bool {
        let words = ["explain", right, identity, &self.service, "--json"];
        let answer: Json = serde_json::from_str(&on_host(&self.server, &words).out).unwrap();
        answer["allowed"] == true
    }
}
