//! An unmodified Go router beside the controller, with the configuration of `docs/routers.md`.

use std::{
    fs::File,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::controller::{Controller, MANAGEMENT};

const DOCUMENT: &str = include_str!("../../docs/routers.md");
/// It makes a key of 4096 bits, connects and is told of sessions.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running router; dropping it stops it.
pub struct GoRouter {
    pub process: Child,
    pub at: SocketAddr,
}

impl GoRouter {
    /// Enrolls a router with the controller and starts it. Returns when it is online.
    pub fn start(controller: &Controller, directory: &Path, program: &Path) -> Self {
        let everybody = json!({ "semantic": "AnyOf", "edgeRouterRoles": ["#all"] });
        for (path, roles) in [("/edge-router-policies", "identityRoles"), ("/service-edge-router-policies", "serviceRoles")] {
            let mut policy = everybody.clone();
            policy["name"] = roles.into();
            policy[roles] = json!(["#all"]);
            controller.create(path, &policy);
        }
        let path = format!("{MANAGEMENT}/edge-routers/{}", controller.create("/edge-routers", &json!({ "name": "far" })));
        let shown = || -> Value {
            let answer = controller.open().ask("GET", &path, &controller.admin, "").expect("a router");
            serde_json::from_slice::<Value>(&answer.body).expect("JSON")["data"].clone()
        };
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        let (port, link) = (free(), free());
        let template = DOCUMENT.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a configuration");
        let configuration = template
            .replace("{folder}", directory.to_str().expect("a path"))
            .replace("{controller}", &controller.at.to_string())
            .replace("{name}", "localhost")
            .replace("{port}", &port.to_string())
            .replace("{link}", &link.to_string());
        std::fs::write(directory.join("router.yml"), configuration).expect("a file");
        std::fs::write(directory.join("token.jwt"), shown()["enrollmentJwt"].as_str().expect("a token")).expect("a file");
        let log = || File::options().append(true).create(true).open(directory.join("log")).expect("a log");
        let command = |arguments: &[&str]| {
            let mut command = Command::new(program);
            command.arg("router").args(arguments).current_dir(directory).stdout(log()).stderr(log());
            command
        };
        let enrolled = command(&["enroll", "router.yml", "--jwt", "token.jwt"]).status().expect("a status");
        assert!(enrolled.success(), "the router does not enroll");
        let process = command(&["run", "router.yml", "--cli-agent=false"]).spawn().expect("a router");
        let router = Self { process, at: SocketAddr::from(([127, 0, 0, 1], port)) };
        let start = Instant::now();
        while shown()["syncStatus"] != "SYNC_DONE" {
            let log = || std::fs::read_to_string(directory.join("log")).unwrap_or_default();
            assert!(start.elapsed() < PATIENCE, "the router is not online: {}", log());
            std::thread::sleep(Duration::from_millis(200));
        }
        router
    }
}

impl Drop for GoRouter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
