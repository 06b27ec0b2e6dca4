//! The attacks.

use std::{
    net::TcpStream,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    IDLE, Kind, LONG, ROUNDS, SERVICES, SESSIONS, Vantage,
    controller::{BY_CERTIFICATE, CLIENT, MANAGEMENT, credentials, session},
    crowd::crowd,
    flush,
    load::{Load, Outcome, Worker, load},
    median, row,
    wire::{Wire, request},
};

const BY_PASSWORD: &str = "/edge/client/v1/authenticate?method=password";

/// A flood of wrong passwords, at ten times the hashing capacity.
pub(crate) fn passwords(place: &Vantage) {
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
pub(crate) fn shedding(place: &Vantage) {
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
pub(crate) fn idle(place: &Vantage) {
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
pub(crate) fn slow(place: &Vantage) {
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
pub(crate) fn huge(place: &Vantage) {
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
pub(crate) fn sessions(place: &Vantage) {
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
