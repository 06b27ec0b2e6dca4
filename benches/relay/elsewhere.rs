//! Unmodified Go programs: a router beside the controller, with the configuration of
//! `docs/routers.md`, and a controller with its own router.

use std::{
    fs::File,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::controller::{Controller, MANAGEMENT, PASSWORD};

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
        for (path, roles) in [
            ("/edge-router-policies", "identityRoles"),
            ("/service-edge-router-policies", "serviceRoles"),
        ] {
            let mut policy = everybody.clone();
            policy["name"] = roles.into();
            policy[roles] = json!(["#all"]);
            controller.create(path, &policy);
        }
        let path = format!(
            "{MANAGEMENT}/edge-routers/{}",
            controller.create("/edge-routers", &json!({ "name": "far" }))
        );
        let answer = controller
            .open()
            .ask("GET", &path, &controller.admin, "")
            .expect("a router");
        let shown: Value = serde_json::from_slice(&answer.body).expect("JSON");
        let (port, link) = (free_port(), free_port());
        let template = DOCUMENT
            .split("```yaml\n")
            .nth(1)
            .and_then(|rest| rest.split("```").next())
            .expect("a configuration");
        let configuration = template
            .replace("{folder}", directory.to_str().expect("a path"))
            .replace("{controller}", &controller.at.to_string())
            .replace("{name}", "localhost")
            .replace("{port}", &port.to_string())
            .replace("{link}", &link.to_string());
        std::fs::write(directory.join("router.yml"), configuration).expect("a file");
        std::fs::write(
            directory.join("token.jwt"),
            shown["data"]["enrollmentJwt"].as_str().expect("a token"),
        )
        .expect("a file");
        let log = || {
            File::options()
                .append(true)
                .create(true)
                .open(directory.join("log"))
                .expect("a log")
        };
        let command = |arguments: &[&str]| {
            let mut command = Command::new(program);
            command
                .arg("router")
                .args(arguments)
                .current_dir(directory)
                .stdout(log())
                .stderr(log());
            command
        };
        let enrolled = command(&["enroll", "router.yml", "--jwt", "token.jwt"])
            .status()
            .expect("a status");
        assert!(enrolled.success(), "the router does not enroll");
        let process = command(&["run", "router.yml", "--cli-agent=false"])
            .spawn()
            .expect("a router");
        let router = Self {
            process,
            at: SocketAddr::from(([127, 0, 0, 1], port)),
        };
        wait_for_router(controller, directory);
        router
    }
}

/// A Go controller on a new file with its router, each a process of its own. `ziti edge quickstart`
/// makes their files and certificates.
pub fn go_controller(directory: &Path, program: &Path) -> (Controller, GoRouter) {
    let home = directory.join("home");
    // The program takes no port above 32767.
    let mut free = (20_000..32_768).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    let ports = [0; 2].map(|_: u16| free.next().expect("a port"));
    let [at, router_at] = ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    std::fs::create_dir(&home).expect("a directory");
    let log = || {
        File::options()
            .append(true)
            .create(true)
            .open(directory.join("log"))
            .expect("a log")
    };
    let start = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(directory)
            .env("HOME", directory)
            .stdout(log())
            .stderr(log());
        command.spawn().expect("a program")
    };
    let [port, router_port] = ports.map(|port| port.to_string());
    let home_text = home.to_str().expect("a path");
    #[rustfmt::skip]
    let both = Controller::of(start(&[
        "edge", "quickstart", "--home", home_text, "-p", PASSWORD, "--ctrl-address", "127.0.0.1", "--ctrl-port", &port,
        "--router-address", "127.0.0.1", "--router-port", &router_port,
    ]), at);
    wait_for_router(&both, directory);
    drop(both);
    let file = |name: &str| home.join(name).to_str().expect("a path").to_owned();
    let controller = Controller::of(start(&["controller", "run", &file("ctrl.yaml")]), at);
    let router = GoRouter {
        process: start(&[
            "router",
            "run",
            &file("quickstart-router.yaml"),
            "--cli-agent=false",
        ]),
        at: router_at,
    };
    wait_for_router(&controller, directory);
    (controller, router)
}

/// Waits until the only router of a controller is online.
fn wait_for_router(controller: &Controller, directory: &Path) {
    let start = Instant::now();
    loop {
        let answer = controller
            .open()
            .ask(
                "GET",
                &format!("{MANAGEMENT}/edge-routers"),
                &controller.admin,
                "",
            )
            .expect("a list");
        let list: Value = serde_json::from_slice(&answer.body).expect("JSON");
        if list["data"][0]["syncStatus"] == "SYNC_DONE" {
            return;
        }
        let log = || std::fs::read_to_string(directory.join("log")).unwrap_or_default();
        assert!(
            start.elapsed() < PATIENCE,
            "the router is not online: {}",
            log()
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port()
}

impl Drop for GoRouter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
