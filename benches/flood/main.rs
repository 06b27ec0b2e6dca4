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
    net::TcpStream,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use controller::{BY_CERTIFICATE, CLIENT, Controller, MANAGEMENT, credentials, session};
use crowd::crowd;
use load::{Load, Outcome, Worker, during, load};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tempfile::TempDir;
use wire::{Manner, Wire, request};

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

const BY_PASSWORD: &str = "/edge/client/v1/authenticate?method=password";

/// A flood of wrong passwords, at ten times the hashing capacity.
fn passwords(place: &Vantage) {
    let count = AtomicUsize::new(0);
    let guess = |wire: &mut Wire| {
        let guess = credentials(
            &format!("guess-{}", count.fetch_add(1, Relaxed)),
            "a wrong password",
        );
        let answer = wire
            .ask("POST", BY_PASSWORD, "", &guess)
            .expect("an answer");
        if answer.status == 401 {
            Outcome::Useful
        } else {
            Outcome::Refused(1)
        }
    };
    let guessing = || {
        let mut wire = place.controller.open();
        Box::new(move || guess(&mut wire)) as Worker<'_>
    };
    let capacity = load(LONG, (0..4).map(|_| guessing()).collect()).each_second;
    let (rate, sent, hashed, start) = (
        capacity * 10.0,
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        Instant::now(),
    );
    let paced = || {
        let mut wire = place.controller.open();
        let (sent, hashed) = (&sent, &hashed);
        Box::new(move || {
            // The attackers share the due times of the guesses; late guesses are not caught up.
            let due = Duration::from_secs_f64(sent.fetch_add(1, Relaxed) as f64 / rate);
            sent.fetch_max((start.elapsed().as_secs_f64() * rate) as usize, Relaxed);
            thread::sleep(due.saturating_sub(start.elapsed()));
            if matches!(guess(&mut wire), Outcome::Useful) {
                hashed.fetch_add(1, Relaxed);
            }
            Outcome::Nothing
        }) as Worker<'_>
    };
    println!(
        "a password flood: {rate:.0} a second, of which {capacity:.1} can be hashed on a machine that does nothing else"
    );
    place.compare("flood", || (0..200).map(|_| paced()).collect());
    println!(
        "  {} of {} guesses were hashed",
        hashed.load(Relaxed),
        count.load(Relaxed)
    );
}

/// Eight times as many clients, which obey `Retry-After` when they are rejected.
fn shedding(place: &Vantage) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                while let n @ 0..SERVICES = next.fetch_add(1, Relaxed) {
                    place.controller.create(
                        "/services",
                        &json!({ "name": format!("service {n:05}"), "encryptionRequired": true }),
                    );
                }
            });
        }
    });
    println!("useful answers a second for 64 and for 512 clients");
    let kinds: [Kind; 3] = [
        ("reads", Vantage::read),
        ("long lists", Vantage::list),
        ("writes", Vantage::write),
    ];
    for (what, asked) in kinds {
        let (method, path, body) = asked(place);
        let request = request(method, &path, &place.controller.admin, body);
        let useful = |clients: usize| {
            let (wires, before) = (
                (0..clients).map(|_| place.controller.open()).collect(),
                place.controller.cpu(),
            );
            let load = crowd(LONG, wires, &request);
            let cpu = (place.controller.cpu() - before) / (load.each_second * LONG.as_secs_f64());
            [load.each_second, load.refused_each_second, cpu * 1e6]
        };
        // In alternation, so that load from other machines affects both.
        let rounds: Vec<_> = (0..ROUNDS).map(|_| (useful(64), useful(512))).collect();
        let [(some, many), (refused, more_refused), (cpu, more_cpu)] = [0, 1, 2].map(|at| {
            (
                median(rounds.iter().map(|(some, _)| some[at])),
                median(rounds.iter().map(|(_, many)| many[at])),
            )
        });
        row(
            what,
            some,
            many,
            Some(("at least 0.90", |ratio| ratio >= 0.9)),
        );
        println!("  sent away: {refused:.0} and {more_refused:.0} a second");
        println!("  CPU of the controller for each: {cpu:.1} and {more_cpu:.1} us");
    }
}

/// Idle connections.
fn idle(place: &Vantage) {
    let controller = &place.controller;
    let reads = || load(LONG, vec![place.reads(), place.reads()]).each_second;
    let open = |_| -> Vec<Wire> { (0..IDLE / 8).map(|_| controller.open()).collect() };
    let (mut quiet, mut beside) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let before = controller.memory();
        quiet.push(reads());
        let start = Instant::now();
        let held: Vec<Vec<Wire>> = thread::scope(|scope| {
            let started: Vec<_> = (0..8).map(|n| scope.spawn(move || open(n))).collect();
            started
                .into_iter()
                .map(|part| part.join().expect("connections"))
                .collect()
        });
        // Only the first round shows the memory, because later ones reuse it.
        if round == 0 {
            println!(
                "{IDLE} idle connections, opened in {:.1} s",
                start.elapsed().as_secs_f64()
            );
            let (memory, cpu) = (controller.memory(), controller.cpu());
            thread::sleep(LONG);
            println!(
                "  memory: {:.0} MiB, {:.1} KiB each",
                (memory - before) / 1024.0,
                (memory - before) / IDLE as f64
            );
            println!(
                "  CPU while nothing happens: {:.2} % of a core",
                (controller.cpu() - cpu) / LONG.as_secs_f64() * 100.0
            );
        }
        beside.push(reads());
        drop(held);
        thread::sleep(LONG / 4);
    }
    row(
        "idle connections: reads, per second",
        median(quiet),
        median(beside),
        Some(("at least 0.90", |ratio| ratio >= 0.9)),
    );
}

/// Clients that never finish their handshakes, heads or bodies.
fn slow(place: &Vantage) {
    let controller = &place.controller;
    const EACH: usize = 200;
    let pause = || thread::sleep(Duration::from_millis(200));
    let trickling = |head: &'static [u8]| {
        let mut wires: Vec<Option<Wire>> = (0..EACH).map(|_| None).collect();
        Box::new(move || {
            for place in &mut wires {
                match place {
                    Some(wire) => {
                        if wire.send(b"x").is_err() {
                            *place = None;
                        }
                    }
                    None => {
                        *place = Wire::open(controller.at, &controller.plain)
                            .and_then(|mut wire| wire.send(head).map(|()| wire))
                            .ok()
                    }
                }
            }
            pause();
            Outcome::Nothing
        }) as Worker<'_>
    };
    let half_open =
        || {
            let mut sockets: Vec<(TcpStream, Instant)> = Vec::new();
            Box::new(move || {
                sockets.retain(|(_, since)| since.elapsed() < Duration::from_secs(6));
                sockets.extend((sockets.len()..EACH).filter_map(|_| {
                    Some((TcpStream::connect(controller.at).ok()?, Instant::now()))
                }));
                pause();
                Outcome::Nothing
            }) as Worker<'_>
        };
    let head = b"GET /version HTTP/1.1\r\nhost: bench\r\nx-slow: ";
    let body =
        b"POST /authenticate?method=password HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n";
    println!("{EACH} clients each that never finish their handshake, their head, their body");
    place.compare("slow", || {
        vec![trickling(head), trickling(body), half_open()]
    });
}

/// Heads and bodies above the limits.
fn huge(place: &Vantage) {
    let controller = &place.controller;
    let cost = |request: &[u8], status: u16| {
        const TIMES: usize = 300;
        let round = |_| {
            let cpu = controller.cpu();
            for _ in 0..TIMES {
                let mut wire = controller.open();
                // The controller may answer and close before everything was sent.
                drop(wire.send(request));
                assert_eq!(wire.answer().map_or(status, |answer| answer.status), status);
            }
            (controller.cpu() - cpu) / TIMES as f64 * 1e6
        };
        median((0..ROUNDS).map(round))
    };
    println!("CPU of the controller in us for a request over a new connection, small and huge");
    let small = cost(b"GET /version HTTP/1.1\r\nhost: bench\r\n\r\n", 200);
    let padding = "x".repeat(110_000);
    row(
        "a head of 110 KB, 431",
        small,
        cost(
            format!("GET /version HTTP/1.1\r\nhost: bench\r\nx-huge: {padding}\r\n\r\n").as_bytes(),
            431,
        ),
        None,
    );
    let head = "POST /authenticate?method=password HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: ";
    row(
        "a body of 10 MB, 413",
        small,
        cost(
            format!("{head}10000000\r\n\r\n{}", "x".repeat(10_000_000)).as_bytes(),
            413,
        ),
        None,
    );
}

/// All sessions of an identity end at once.
fn sessions(place: &Vantage) {
    let controller = &place.controller;
    let (id, many) = controller.enrolled("many");
    let identity = format!("{MANAGEMENT}/identities/{id}");
    // Returns the last session.
    let open_all = || {
        let left = AtomicUsize::new(SESSIONS);
        thread::scope(|scope| {
            let open = || {
                let mut wire = Wire::open(controller.at, &many).expect("a connection");
                let mut last = String::new();
                while left
                    .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
                    .is_ok()
                {
                    last = session(
                        &wire
                            .ask("POST", BY_CERTIFICATE, "", "")
                            .expect("a login")
                            .body,
                    );
                }
                last
            };
            let started: Vec<_> = (0..16).map(|_| scope.spawn(open)).collect();
            started
                .into_iter()
                .map(|part| part.join().expect("logins"))
                .last()
                .expect("a session")
        })
    };
    let change = |what: &str, body: &str| {
        let answer = controller.open().ask(
            "POST",
            &format!("{identity}/{what}"),
            &controller.admin,
            body,
        );
        assert_eq!(answer.expect("an answer").status, 200);
    };
    let side_by_side = |end: bool| {
        thread::scope(|scope| {
            let writes = scope.spawn(|| load(LONG, vec![place.writes(), place.writes()]));
            let reads = scope.spawn(|| load(LONG, vec![place.reads(), place.reads()]));
            thread::sleep(LONG / 4);
            let start = Instant::now();
            if end {
                change("disable", r#"{"durationMinutes":0}"#);
            }
            let took = start.elapsed().as_secs_f64() * 1e3;
            (
                [writes.join().expect("writes"), reads.join().expect("reads")],
                took,
            )
        })
    };
    let round = |_| {
        let last = open_all();
        let (quiet, ended) = (side_by_side(false), side_by_side(true));
        let gone = controller
            .open()
            .ask("GET", &format!("{CLIENT}/current-api-session"), &last, "")
            .expect("an answer");
        assert_eq!(gone.status, 401, "the sessions are still there");
        change("enable", "");
        (quiet.0, ended.0, ended.1)
    };
    let rounds: Vec<_> = (0..ROUNDS).map(round).collect();
    let (took, flush) = (
        median(rounds.iter().map(|round| round.2)),
        flush(&place.directory.join("floor")) * 1e3,
    );
    println!(
        "{SESSIONS} sessions of an identity end: answered after {took:.1} ms ({:.0} times a flush of the disk)",
        took / flush
    );
    for (what, of) in [("writes", 0), ("reads", 1)] {
        let sides = |figure: fn(&Load) -> f64| {
            (
                median(rounds.iter().map(|round| figure(&round.0[of]))),
                median(rounds.iter().map(|round| figure(&round.1[of]))),
            )
        };
        let (quiet, ended) = sides(Load::p99);
        row(
            &format!("sessions end: {what}, p99 in ms"),
            quiet,
            ended,
            Some(("at most 2.00", |ratio| ratio <= 2.0)),
        );
        let (quiet, ended) = sides(|load| load.part(1.0).as_secs_f64() * 1e3);
        row(
            &format!("sessions end: {what}, longest in ms"),
            quiet,
            ended,
            None,
        );
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
