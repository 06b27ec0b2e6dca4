//! Checks of the host of a controller: files, disk, clock, limits, snapshots, in `network.rs` its
//! network, and in `records.rs` its records. They change nothing.

pub mod network;
pub mod records;

use std::{
    borrow::Cow,
    fmt::Display,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, SystemTime},
};

use model::{clock::Timestamp, config::Config};
use policy::expiring::snapshot_files;
use rustix::process::{Resource, getrlimit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{beside, free_bytes};

/// Free bytes that should be left beside a copy of the data file.
const SPARE: u64 = 256 << 20;
/// Open files besides connections.
const OTHER_FILES: u64 = 128;
/// How far a file may be ahead of the clock.
const AHEAD: Duration = Duration::from_secs(60);
/// The directory in which the time service of systemd records that it runs, and that it has set the
/// clock.
const TIME_SERVICE: &str = "/run/systemd/timesync";

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DoctorFinding")]
pub struct DoctorFinding {
    /// What was checked.
    pub check: Cow<'static, str>,
    /// Whether nothing is wrong.
    pub healthy: bool,
    /// What was found.
    pub detail: String,
    /// What mends it; empty if nothing is wrong.
    pub mend: String,
}

impl DoctorFinding {
    pub fn good(check: &'static str, detail: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            healthy: true,
            detail: detail.into(),
            mend: String::new(),
        }
    }

    /// The records that a check needs cannot be read.
    pub fn unreadable(check: &'static str, error: impl Display) -> Self {
        Self::bad(check, error.to_string(), "overkeep check")
    }

    pub fn bad(check: &'static str, detail: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            healthy: false,
            detail: detail.into(),
            mend: mend.into(),
        }
    }
}

/// The findings of all checks of the host.
pub fn findings(config: &Config) -> Vec<DoctorFinding> {
    let mut found = vec![data_file(&config.data)];
    found.extend(password_file(&config.data));
    found.extend(
        [&config.passphrase_file, &config.tls.key]
            .into_iter()
            .flatten()
            .map(|path| secret_file(path)),
    );
    found.extend([
        disk(&config.data),
        clock(&config.data, Path::new(TIME_SERVICE)),
        open_files(config),
        snapshots(config),
    ]);
    found
}

fn data_file(data: &Path) -> DoctorFinding {
    const CHECK: &str = "data file";
    let shown = data.display();
    match fs::metadata(data) {
        Ok(found) if found.permissions().mode() & 0o077 != 0 => {
            let mode = found.permissions().mode() & 0o7777;
            DoctorFinding::bad(
                CHECK,
                format!(
                    "{shown} holds keys, and users other than its owner can access it (mode {mode:04o})"
                ),
                format!("chmod 600 {shown}"),
            )
        }
        Ok(found) => DoctorFinding::good(CHECK, format!("{shown}, {} KiB", found.len() >> 10)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => DoctorFinding::bad(
            CHECK,
            format!("{shown} does not exist"),
            "overkeep run creates it; --data or --config name another one",
        ),
        Err(error) => DoctorFinding::bad(
            CHECK,
            format!("{shown}: {error}"),
            "run this as the user of the controller",
        ),
    }
}

/// The administrator's first password, which should be read and deleted.
fn password_file(data: &Path) -> Option<DoctorFinding> {
    let path = beside(data, ".admin-password");
    let detail = format!("{} still exists", path.display());
    path.exists().then(|| {
        DoctorFinding::bad(
            "first password",
            detail,
            format!("read it, then rm {}", path.display()),
        )
    })
}

fn secret_file(path: &Path) -> DoctorFinding {
    const CHECK: &str = "secret file";
    let shown = path.display();
    match fs::metadata(path) {
        Ok(found) if found.permissions().mode() & 0o077 != 0 => DoctorFinding::bad(
            CHECK,
            format!("users other than its owner can access {shown}"),
            format!("chmod 600 {shown}"),
        ),
        Ok(_) => DoctorFinding::good(CHECK, shown.to_string()),
        Err(error) => DoctorFinding::bad(
            CHECK,
            format!("{shown}: {error}"),
            "a start needs this file; correct its path or its rights",
        ),
    }
}

/// A snapshot and an upgrade need room for a copy of the file.
fn disk(data: &Path) -> DoctorFinding {
    const CHECK: &str = "disk";
    let directory = data
        .parent()
        .filter(|path| !path.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let size = fs::metadata(data).map_or(0, |found| found.len());
    match free_bytes(directory) {
        Ok(free) => {
            let needed = size.saturating_add(SPARE);
            let told = format!("{} MiB free in {}", free >> 20, directory.display());
            if free >= needed {
                return DoctorFinding::good(CHECK, told);
            }
            DoctorFinding::bad(
                CHECK,
                format!("{told}; a copy of the data file needs {} MiB", needed >> 20),
                "free space, or move the data file",
            )
        }
        Err(error) => DoctorFinding::bad(
            CHECK,
            format!("{}: {error}", directory.display()),
            "create the directory, or name another data file",
        ),
    }
}

/// Certificates and tokens depend on the clock.
fn clock(data: &Path, service: &Path) -> DoctorFinding {
    const CHECK: &str = "clock";
    let mend = "timedatectl set-ntp true, or another time service";
    let now = SystemTime::now();
    let shown = Timestamp::from(now);
    let written = fs::metadata(data).and_then(|found| found.modified()).ok();
    if written
        .and_then(|written| written.duration_since(now).ok())
        .is_some_and(|ahead| ahead > AHEAD)
    {
        return DoctorFinding::bad(
            CHECK,
            format!("{shown} is before the last write of the data file"),
            mend,
        );
    }
    if service.exists() && !service.join("synchronized").exists() {
        return DoctorFinding::bad(
            CHECK,
            format!("{shown}, not set by the time service yet"),
            mend,
        );
    }
    DoctorFinding::good(CHECK, shown.to_string())
}

fn open_files(config: &Config) -> DoctorFinding {
    const CHECK: &str = "open files";
    let needed = config.http.max_connections as u64 + OTHER_FILES;
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < needed => DoctorFinding::bad(
            CHECK,
            format!("at most {most} here; http.max-connections needs {needed}"),
            format!(
                "LimitNOFILE={needed} in the unit, or ulimit -n {needed}, or lower http.max-connections"
            ),
        ),
        most => DoctorFinding::good(
            CHECK,
            most.map_or("no limit".into(), |most| {
                format!("at most {most}, {needed} needed")
            }),
        ),
    }
}

fn snapshots(config: &Config) -> DoctorFinding {
    const CHECK: &str = "snapshots";
    let Some(directory) = &config.snapshots.directory else {
        return DoctorFinding::bad(
            CHECK,
            "none are scheduled",
            "set snapshots.directory, or run examples/backup.sh by a timer",
        );
    };
    let shown = directory.display();
    let now = Timestamp::from(SystemTime::now());
    match snapshot_files::newest(directory, now) {
        Ok(Some((at, path))) if now.since(at) > config.snapshots.interval.duration() * 2 => {
            DoctorFinding::bad(
                CHECK,
                format!("the last one is of {at}: {}", path.display()),
                "is the controller running? its log says why a snapshot failed",
            )
        }
        Ok(Some((at, _))) => DoctorFinding::good(CHECK, format!("the last one is of {at}")),
        Ok(None) => DoctorFinding::bad(
            CHECK,
            format!("there is none in {shown} yet"),
            "a running controller makes the first within a minute; its log says why not",
        ),
        Err(error) => DoctorFinding::bad(
            CHECK,
            format!("{shown}: {error}"),
            "a running controller creates the directory; its user must be able to write there",
        ),
    }
}
