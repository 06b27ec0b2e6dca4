//! The effect of an attack on other clients. The controller runs as a child process; the attackers
//! and the others run here.
//!
//! `cargo bench --bench flood`, or some parts by name: `-- passwords shedding idle slow huge
//! sessions unread`. Every figure is shown beside the figure without attack from the same run and
//! is the median of five rounds. Attackers, the others and the controller share the cores of the
//! machine. `OVERKEEP_BENCH_DIR` names a directory on the disk to measure.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)] // a bench that panics says so

mod attacks;
mod controller;
mod crowd;
mod load;
#[path = "../common/process.rs"]
mod process;
#[path = "../common/tls.rs"]
mod tls;
mod unread;
mod wire;

use std::{
    fs::OpenOptions,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use attacks::{huge, idle, passwords, sessions, shedding, slow};
use controller::{BY_CERTIFICATE, Controller, MANAGEMENT};
use load::{Load, Outcome, Worker, during, load};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tempfile::TempDir;
use wire::{Manner, Wire};

const LONG: Duration = Duration::from_secs(4);
const ROUNDS: usize = 5;
const SERVICES: usize = 2000;
const IDLE: usize = 10_000;
const SESSIONS: usize = 8500;

/// A part of the bench, by name.
type Part = (&'static str, fn(&Vantage));
/// A repeated request: method, path and body.
type Asked = (&'static str, String, &'static str);
/// A kind of load, by name.
type Kind = (&'static str, fn(&Vantage) -> Asked);

/// The controller and the clients of the bench.
struct Vantage {
    controller: Controller,
    directory: PathBuf,
    /// Connects with the certificate of an identity.
    holder: Manner,
    service: String,
}

fn main() {
    let files = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: files.maximum,
            ..files
        },
    )
    .expect("as many files as are allowed");
    let home =
        std::env::var("OVERKEEP_BENCH_DIR").map_or_else(|_| std::env::temp_dir(), PathBuf::from);
    let directory = TempDir::new_in(home).expect("a directory");
    let controller = Controller::start(directory.path(), &[]);
    let (_, holder) = controller.enrolled("holder");
    let service = controller.create(
        "/services",
        &json!({ "name": "read", "encryptionRequired": true }),
    );
    let place = Vantage {
        controller,
        directory: directory.path().into(),
        holder,
        service,
    };
    let parts: [Part; 7] = [
        ("passwords", passwords),
        ("shedding", shedding),
        ("idle", idle),
        ("slow", slow),
        ("huge", huge),
        ("sessions", sessions),
        ("unread", unread::unread),
    ];
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    println!(
        "{:<52}{:>12}{:>12}{:>9}   goal",
        "", "quiet", "attacked", "ratio"
    );
    for (_, part) in parts
        .iter()
        .filter(|(name, _)| asked.is_empty() || asked.iter().any(|word| word == name))
    {
        part(&place);
    }
}

/// The goal for a ratio as text, and whether it is met.
type Goal = (&'static str, fn(f64) -> bool);

fn row(what: &str, quiet: f64, attacked: f64, goal: Option<Goal>) {
    let ratio = attacked / quiet;
    let goal = goal.map_or(String::new(), |(goal, met)| {
        format!("{goal}: {}", if met(ratio) { "met" } else { "missed" })
    });
    println!("{what:<52}{quiet:>12.2}{attacked:>12.2}{ratio:>9.2}   {goal}");
}

/// The median.
fn median(of: impl IntoIterator<Item = f64>) -> f64 {
    let mut of: Vec<f64> = of.into_iter().collect();
    of.sort_unstable_by(f64::total_cmp);
    of[of.len() / 2]
}

impl Vantage {
    /// Logs in by certificate, over a new connection each time.
    fn logins(&self) -> Worker<'_> {
        Box::new(move || {
            match Wire::open(self.controller.at, &self.holder)
                .and_then(|mut wire| wire.ask("POST", BY_CERTIFICATE, "", ""))
            {
                Ok(answer) if answer.status == 200 => Outcome::Useful,
                _ => Outcome::Nothing,
            }
        })
    }

    /// Sends the same request over one connection again and again.
    fn asking(&self, (method, path, body): Asked) -> Worker<'_> {
        let mut wire = self.controller.open();
        Box::new(move || {
            let answer = wire.ask(method, &path, &self.controller.admin, body);
            match answer.unwrap_or_else(|e| panic!("{method} {path}: {e}")) {
                answer if answer.status < 300 => Outcome::Useful,
                answer => Outcome::Refused(
                    answer
                        .retry_after
                        .unwrap_or_else(|| panic!("{method} {path}: {}", answer.status)),
                ),
            }
        })
    }

    fn reads(&self) -> Worker<'_> {
        self.asking(self.read())
    }

    fn writes(&self) -> Worker<'_> {
        self.asking(self.write())
    }

    fn read(&self) -> Asked {
        ("GET", format!("{MANAGEMENT}/services/{}", self.service), "")
    }

    fn write(&self) -> Asked {
        (
            "PATCH",
            format!("{MANAGEMENT}/services/{}", self.service),
            r#"{"tags":{"n":1}}"#,
        )
    }

    fn list(&self) -> Asked {
        (
            "GET",
            format!("{MANAGEMENT}/services?limit=10&filter=name%20contains%20%22000%22"),
            "",
        )
    }

    /// Log-ins and reads at the same time.
    fn others(&self) -> (Load, Load) {
        thread::scope(|scope| {
            let logins = scope.spawn(|| load(LONG, vec![self.logins(), self.logins()]));
            let reads = load(LONG, vec![self.reads(), self.reads()]);
            (logins.join().expect("logins"), reads)
        })
    }

    /// Measures log-ins and reads without and with an attack, in alternation, and prints both.
    fn compare<'p>(&'p self, attack: &str, attackers: impl Fn() -> Vec<Worker<'p>>) {
        let rounds: Vec<_> = (0..ROUNDS)
            .map(|_| (self.others(), during(attackers(), || self.others())))
            .collect();
        for (what, of) in [("logins by certificate", 0), ("reads", 1)] {
            let pick = |pair: &(Load, Load)| {
                if of == 0 {
                    pair.0.clone()
                } else {
                    pair.1.clone()
                }
            };
            let figures = |figure: fn(&Load) -> f64| {
                let side = |attacked: bool| {
                    median(
                        rounds
                            .iter()
                            .map(|round| figure(&pick(if attacked { &round.1 } else { &round.0 }))),
                    )
                };
                (side(false), side(true))
            };
            let ((quiet, attacked), (quiet_p99, attacked_p99)) =
                (figures(|load| load.each_second), figures(Load::p99));
            row(
                &format!("{attack}: {what}, per second"),
                quiet,
                attacked,
                Some(("at least 0.50", |ratio| ratio >= 0.5)),
            );
            row(
                &format!("{attack}: {what}, p99 in ms"),
                quiet_p99,
                attacked_p99,
                Some(("at most 2.00", |ratio| ratio <= 2.0)),
            );
        }
    }
}

/// Seconds of one page write with fdatasync.
fn flush(path: &Path) -> f64 {
    const TIMES: u32 = 200;
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .expect("a file");
    file.write_all_at(&vec![1; 1 << 20], 0)
        .and_then(|()| file.sync_all())
        .expect("a file of full length");
    let start = Instant::now();
    for n in 0..TIMES {
        file.write_all_at(&[n as u8; 4096], u64::from(n % 256) * 4096)
            .and_then(|()| file.sync_data())
            .expect("a flush");
    }
    start.elapsed().as_secs_f64() / f64::from(TIMES)
}
