//! What the REST interface costs: the program itself as a child process, kept-alive TLS connections from here.
//!
//! `cargo bench --bench rest`; `OVERKEEP_BENCH_DIR` names a directory on the disk to measure. Client and server share the cores of
//! the machine, so rates say what a machine does that also runs its clients; the server's CPU time is from its own accounts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)] // a bench that panics says so

mod client;
mod server;

use std::{
    fs::OpenOptions,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use client::Client;
use serde_json::{Value, json};
use server::{CLIENT, MANAGEMENT, Server, create, user};
use tempfile::TempDir;

const SERVICES: usize = 10_000;
const LONG: Duration = Duration::from_secs(3);
const ROUNDS: usize = 3;

fn main() {
    let home = std::env::var("OVERKEEP_BENCH_DIR").map_or_else(|_| std::env::temp_dir(), PathBuf::from);
    let directory = TempDir::new_in(home).expect("a directory");
    let server = Server::start(directory.path());
    println!("{:<58}{:>12}{:>9}{:>14}   goal", "", "per second", "x floor", "server CPU us");
    writes(&server, directory.path());
    let some = fill(&server);
    reads(&server, &some);
    lists(&server);
}

/// How often something was done in a second, and what each cost the server in microseconds of CPU.
#[derive(Clone, Copy)]
struct Rate {
    each_second: f64,
    cpu: f64,
}

/// Every thread, with a connection of its own, works for a while; the best of some rounds, since others use the machine too.
fn rate(server: &Server, token: &str, threads: usize, work: impl Fn(&mut Client, usize) + Sync) -> Rate {
    let count = AtomicUsize::new(0);
    let mut clients: Vec<Client> = (0..threads).map(|_| Client::new(server.at, token)).collect();
    clients.iter_mut().for_each(|client| work(client, count.fetch_add(1, Relaxed)));
    let round = |clients: &mut [Client]| {
        let (before, cpu, start) = (count.load(Relaxed), server.cpu(), Instant::now());
        std::thread::scope(|scope| {
            for client in clients {
                scope.spawn(|| {
                    while start.elapsed() < LONG {
                        work(client, count.fetch_add(1, Relaxed));
                    }
                });
            }
        });
        let done = (count.load(Relaxed) - before) as f64;
        Rate { each_second: done / start.elapsed().as_secs_f64(), cpu: (server.cpu() - cpu) / done * 1e6 }
    };
    let rounds: Vec<Rate> = (0..ROUNDS).map(|_| round(&mut clients)).collect();
    let best = |one: fn(&Rate) -> f64| rounds.iter().map(one);
    Rate { each_second: best(|r| r.each_second).fold(0.0, f64::max), cpu: best(|r| r.cpu).fold(f64::MAX, f64::min) }
}

fn row(what: &str, each_second: f64, ratio: Option<f64>, cpu: Option<f64>, goal: Option<(&str, bool)>) {
    let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
    let cpu = cpu.map_or(String::new(), |cpu| format!("{cpu:.0}"));
    let goal = goal.map_or(String::new(), |(goal, met)| format!("{goal}: {}", if met { "met" } else { "missed" }));
    println!("{what:<58}{each_second:>12.0}{ratio:>9}{cpu:>14}   {goal}");
}

fn writes(server: &Server, directory: &Path) {
    let (mut admin, token) = server.login("admin");
    let id = create(&mut admin, "/services", &json!({ "name": "written", "encryptionRequired": true }));
    let path = format!("{MANAGEMENT}/services/{id}");
    let write = |client: &mut Client, n: usize| _ = client.send("PATCH", &path, &format!(r#"{{"tags":{{"n":{n}}}}}"#));
    // The floor before and after, since the disk is not the same at every moment.
    let before = fdatasyncs(&directory.join("floor"));
    let lone = rate(server, &token, 1, write);
    let floor = before.max(fdatasyncs(&directory.join("floor")));
    row("floor: raw fdatasync of one page, alone", floor, Some(1.0), None, None);
    let ratio = lone.each_second / floor;
    row("durable write, one writer", lone.each_second, Some(ratio), Some(lone.cpu), Some(("0.40 of the floor", ratio >= 0.4)));
    for writers in [16, 64] {
        let many = rate(server, &token, writers, write);
        let goal = ("150 us of CPU", many.cpu <= 150.0);
        row(&format!("durable write, {writers} writers"), many.each_second, Some(many.each_second / floor), Some(many.cpu), Some(goal));
    }
}

/// Rewrites of a page in a file of full length, each followed by fdatasync, per second; the best of some rounds.
fn fdatasyncs(path: &Path) -> f64 {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(path).expect("a file");
    file.write_all_at(&vec![1; 1 << 20], 0).and_then(|()| file.sync_all()).expect("a page");
    let round = |_| {
        let (start, mut count) = (Instant::now(), 0_u64);
        while start.elapsed() < Duration::from_secs(1) {
            file.write_all_at(&[count as u8; 4096], count % 256 * 4096).and_then(|()| file.sync_data()).expect("a sync");
            count += 1;
        }
        count as f64 / start.elapsed().as_secs_f64()
    };
    (0..ROUNDS).map(round).fold(0.0, f64::max)
}

/// Many services of about 600 bytes, a policy that shows all of them to one user, and the id of one of them.
fn fill(server: &Server) -> String {
    let (mut admin, token) = server.login("admin");
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                let mut client = Client::new(server.at, &token);
                loop {
                    let n = next.fetch_add(1, Relaxed);
                    if n >= SERVICES {
                        return;
                    }

                    let roles = ["everything"];
                    let service = json!({ "name": format!("service number {n:05}"), "encryptionRequired": true, "roleAttributes": roles });
                    create(&mut client, "/services", &service);
                }
            });
        }
    });
    user(&mut admin, "somebody");
    let policy =
        json!({ "name": "everything", "type": "Dial", "semantic": "AnyOf", "identityRoles": ["#all"], "serviceRoles": ["#everything"] });
    create(&mut admin, "/service-policies", &policy);
    create(&mut admin, "/services", &json!({ "name": "read", "encryptionRequired": true }))
}

fn reads(server: &Server, id: &str) {
    const CONNECTIONS: usize = 8;
    let (_, token) = server.login("admin");
    let floor = rate(server, "", CONNECTIONS, |client, _| _ = client.send("GET", "/health", ""));
    let detail = format!("{MANAGEMENT}/services/{id}");
    let read = rate(server, &token, CONNECTIONS, |client, _| _ = client.send("GET", &detail, ""));
    row("floor: GET /health, a constant", floor.each_second, Some(1.0), Some(floor.cpu), None);
    // By what the server spends: the client's share of the machine would flatter the ratio.
    let ratio = floor.cpu / read.cpu;
    row("authenticated GET by id", read.each_second, Some(ratio), Some(read.cpu), Some(("0.30 of the floor", ratio >= 0.3)));
}

fn lists(server: &Server) {
    let (mut client, token) = server.login("somebody");
    let answer = client.send("GET", &format!("{CLIENT}/services?limit=500"), "");
    let (bytes, page): (usize, Value) = (answer.len(), serde_json::from_slice(answer).expect("a page"));
    let (shown, total) = (page["data"].as_array().map_or(0, Vec::len), &page["meta"]["pagination"]["totalCount"]);
    assert_eq!((shown, total), (500, &json!(SERVICES)));
    let listed = rate(server, &token, 1, |client, n| {
        let offset = n % (SERVICES / 500) * 500;
        client.send("GET", &format!("{CLIENT}/services?limit=500&offset={offset}"), "");
    });
    let what = format!("500 of {SERVICES} visible services, {} bytes each", bytes / 500);
    row(&what, listed.each_second, None, Some(listed.cpu), Some(("1000 us of CPU", listed.cpu <= 1_000.0)));
    let sorted = rate(server, &token, 1, |client, _| {
        client.send("GET", &format!("{CLIENT}/services?limit=500&sort=name"), "");
    });
    row("  the same, sorted by name", sorted.each_second, None, Some(sorted.cpu), None);
}
