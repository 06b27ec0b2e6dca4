//! `overkeep drill`: proves that a snapshot can be restored, without touching the controller. The snapshot is restored into a new directory,
//! a controller is started on it at a port of this host, and the directory is removed.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File},
    io,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Instant,
};

use clap::Args;
use serde_json::{Value as Json, json};
use uuid::Uuid;

use super::{
    Acted, Failure,
    admin::{Which, asked},
    api::{https, request::Request, transport::Transport},
    progress::watched,
    trust::roots_of,
};
use crate::{
    admin_socket::{Command, Outcome, found},
    clock::Clock,
    config::{Config, Snapshots},
    controller,
    entity::plural,
    maintenance::{self, offline, restore},
    store::Manifest,
};

/// The user name of the default administrator.
const ADMINISTRATOR: &str = "admin";
/// Kinds whose records a start may delete, because they have ended.
const PASSING: [&str; 4] = ["apiSession", "session", "apiSessionCertificate", "enrollment"];

/// Prove that a snapshot can be restored: restore it aside, start it, log in, count and check. Exit status: 0 it can, 3 it cannot, 1 the
/// drill could not be carried out.
#[derive(Args, Clone, Debug)]
pub(crate) struct Drill {
    /// The snapshot [default: the newest in snapshots.directory]
    snapshot: Option<PathBuf>,
    /// Make the copy in this directory [default: the directory of the snapshot]
    #[arg(long, value_name = "DIRECTORY")]
    aside: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
}

impl Drill {
    /// Carries out the drill.
    ///
    /// # Errors
    /// One line.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> Acted {
        let (config, begun) = (self.which.config(environment)?, Instant::now());
        let snapshot = self.snapshot.map_or_else(|| newest(&config.snapshots), Ok)?;
        let parent = self.aside.unwrap_or_else(|| snapshot.parent().map(Path::to_owned).unwrap_or_default());
        let aside = Aside::new(&parent)?;
        let data = aside.0.join("overkeep.redb");
        let passphrase = config.passphrase().map_err(Failure::of)?;
        let restored = watched(|watch| restore::restore(&snapshot, &data, passphrase.as_ref(), Clock::system().now(), watch));
        let manifest = match restored.map_err(Failure::of)?.0 {
            offline::CheckedFile { manifest: Some(manifest), report } if report.findings.is_empty() => manifest,
            offline::CheckedFile { report, .. } => return Ok(found(&report)),
        };
        let config = alone(config, data);
        let running = controller::start(&config, Clock::system()).map_err(Failure::of)?;
        let tried = tried(&config, running.bound(), &manifest);
        running.stop();
        let mut lines = vec![format!("{}: restored, and a controller started on it", snapshot.display())];
        let (good, told) = tried?;
        lines.extend(told);
        lines.push(format!("the drill took {} s; nothing of it is left", begun.elapsed().as_secs()));
        Ok(if good { Outcome::Done(lines) } else { Outcome::Problems(lines) })
    }
}

fn newest(settings: &Snapshots) -> Result<PathBuf, Failure> {
    let directory = settings.directory.as_ref();
    let directory = directory.ok_or_else(|| Failure::of("snapshots.directory is not set: name a snapshot"))?;
    let newest = maintenance::newest(directory).map_err(|error| Failure::of(format!("{}: {error}", directory.display())))?;
    newest.map(|(_, path)| path).ok_or_else(|| Failure::of(format!("there is no snapshot in {}", directory.display())))
}

/// The configuration of a controller that only this host reaches, and that takes nothing else of the configured one.
fn alone(config: Config, data: PathBuf) -> Config {
    let mut alone = Config { data, listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(), advertise: Vec::new(), ..config };
    (alone.admin_password_file, alone.tls) = (None, Default::default());
    (alone.router.listen, alone.router.advertise, alone.routers.listen, alone.metrics.listen) = (None, None, None, None);
    (alone.snapshots.directory, alone.snapshots.after) = (None, Vec::new());
    // A file without the built-in router gets none, so that counts can be compared.
    alone.router.enabled = false;
    alone
}

/// Logs in, counts and checks. Returns whether all is well, and lines about it.
fn tried(config: &Config, bound: SocketAddr, manifest: &Manifest) -> Result<(bool, Vec<String>), Failure> {
    let socket = Transport::Host(crate::admin_socket::socket::beside(&config.data));
    let password = format!("Ok1-{}", Uuid::new_v4().simple());
    let reset = Command::ResetPassword { username: ADMINISTRATOR.into(), password: password.clone(), allow_passwords: true };
    let mut lines = Vec::new();
    let mut good = true;
    match command(config, &reset) {
        Ok(_) => {
            let status = login(&socket, bound, &password)?;
            good &= status == 200;
            lines.push(if status == 200 { "log-in: done".into() } else { format!("log-in: FAILED with status {status}") });
        }
        Err(reason) => lines.push(format!("log-in: left out, {reason}")),
    }
    let summary = get(&socket, "/edge/management/v1/summary")?;
    let (mut same, mut other) = (0_u64, Vec::new());
    for (kind, count) in manifest.records().filter(|(kind, _)| !PASSING.contains(kind)) {
        let now = if kind == "edgeRouter" { summary.get("routers.edge") } else { summary.get(plural(kind)) };
        match now.and_then(Json::as_u64) {
            Some(now) if now == count => same += count,
            Some(now) => other.push(format!("{kind}: {count} in the snapshot, {now} restored")),
            None => {}
        }
    }
    good &= other.is_empty();
    lines.push(if other.is_empty() {
        format!("counts: {same} records, as in the snapshot")
    } else {
        format!("counts: {}", other.join("; "))
    });
    match command(config, &Command::Check)? {
        Outcome::Done(found) => lines.extend(found.first().map(|line| format!("check: {line}"))),
        Outcome::Problems(found) => {
            good = false;
            lines.extend(found.into_iter().map(|line| format!("check: {line}")));
        }
    }
    Ok((good, lines))
}

fn command(config: &Config, command: &Command) -> Result<Outcome, String> {
    asked(config, command).unwrap_or_else(|| Err("the restored controller has no socket".into()))
}

fn get(socket: &Transport, path: &str) -> Result<Json, Failure> {
    let request = Request { method: "GET".into(), path: path.into(), ..Request::default() };
    Ok(socket.ask(request, None)?.good()?.data())
}

/// The status of a log-in with a password, over TLS.
fn login(socket: &Transport, bound: SocketAddr, password: &str) -> Result<u16, Failure> {
    let request = Request { method: "GET".into(), path: "/.well-known/est/cacerts".into(), ..Request::default() };
    let answer = socket.ask(request, None)?.good()?;
    let roots = roots_of(&String::from_utf8_lossy(&answer.body)).map_err(Failure::of)?;
    let pem: String = roots.iter().map(|der| pem::encode(&pem::Pem::new("CERTIFICATE", der.as_slice()))).collect();
    let url = format!("https://{bound}/edge/management/v1/authenticate?method=password");
    let sent = https::agent(Some(&pem))?.post(url).send_json(json!({ "username": ADMINISTRATOR, "password": password }));
    sent.map(|answer| answer.status().as_u16()).map_err(Failure::of)
}

/// The beginning of the names of drill directories; the id of the process follows.
const PREFIX: &str = "overkeep-drill-";

/// A directory that only its owner can use, until it is dropped. It is locked, so that others know that its drill still runs.
struct Aside(PathBuf, #[expect(dead_code, reason = "holds the lock")] File);

impl Aside {
    fn new(parent: &Path) -> Result<Self, Failure> {
        remove_abandoned(parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path).and_then(|()| locked(&path));
        let lock = made.map_err(|error| Failure::of(format!("{}: {error}; --aside names another directory", path.display())))?;
        Ok(Self(path, lock))
    }
}

/// Removes the directories of drills that were interrupted. One that cannot be removed stays.
fn remove_abandoned(parent: &Path) {
    for path in fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let is_drill = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
        if is_drill && let Ok(lock) = locked(&path) {
            drop(fs::remove_dir_all(&path));
            drop(lock);
        }
    }
}

/// A directory, locked until the file is dropped or the process ends.
fn locked(path: &Path) -> io::Result<File> {
    let directory = File::open(path)?;
    directory.try_lock()?;
    Ok(directory)
}

impl Drop for Aside {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}
