//! HTTP/2 clients that request much and read nothing: the memory they take, and the effect on
//! others.

use std::{
    net::{IpAddr, Ipv4Addr},
    thread,
    time::{Duration, Instant},
};

use super::{
    LONG, Vantage,
    load::{Worker, load},
    median, row,
    wire::{Manner, Wire},
};

/// The number of connections, unless `OVERKEEP_BENCH_UNREAD` sets another.
const CONNECTIONS: usize = 20_000;
/// The number of requests on each connection, as many as are allowed.
const REQUESTS: u32 = 128;
/// The limit on unread answers of all connections in MiB: the default of
/// `http.max-unread-bytes-total`.
const TOTAL: f64 = 128.0;
const THREADS: usize = 8;
/// Where the attack comes from.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const ROUNDS: usize = 3;

/// Measures reads with and without the attack.
pub fn unread(place: &Vantage) {
    let controller = &place.controller;
    let count = std::env::var("OVERKEEP_BENCH_UNREAD").map_or(CONNECTIONS, |count| {
        count.parse().expect("a number of connections")
    });
    // The first request compresses the documents, which are then cached.
    let packed = controller
        .open()
        .ask(
            "GET",
            "/edge/management/v1/openapi.json",
            "accept-encoding: gzip\r\n",
            "",
        )
        .expect("a document");
    assert_eq!(packed.status, 200);
    let (mut quiet, mut beside) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        quiet.push(reads(place));
        let before = controller.memory();
        let start = Instant::now();
        let mut greedy: Vec<Vec<Wire>> = opened(place, count);
        let idle = controller.memory();
        thread::scope(|scope| {
            greedy
                .iter_mut()
                .for_each(|some| drop(scope.spawn(|| some.iter_mut().for_each(ask))))
        });
        let rate = reads(place);
        let (held, each) = (
            (controller.memory() - idle) / 1024.0,
            (idle - before) / count as f64,
        );
        beside.push(rate);
        if round == 0 {
            println!(
                "{count} connections of HTTP/2 with {REQUESTS} requests each, of which nothing is read; after {:.1?}",
                start.elapsed()
            );
            println!(
                "  memory of the connections by themselves: {:.0} MiB, {each:.1} KiB each",
                (idle - before) / 1024.0
            );
            let met = if held <= TOTAL { "met" } else { "missed" };
            println!("  memory of what is unread: {held:.0} MiB   at most {TOTAL} MiB: {met}");
        }
        drop(greedy);
        thread::sleep(LONG / 4);
    }
    row(
        "unread answers: reads, per second",
        median(quiet),
        median(beside),
        Some(("at least 0.50", |ratio| ratio >= 0.5)),
    );
}

fn reads(place: &Vantage) -> f64 {
    let workers: Vec<Worker<'_>> = vec![place.reads(), place.reads()];
    load(LONG, workers).each_second
}

/// Connections without a request, whose answers are never read.
fn opened(place: &Vantage, count: usize) -> Vec<Vec<Wire>> {
    let controller = &place.controller;
    let manner = Manner::multiplexed();
    let open = || {
        let mut wire = Wire::open_from(ELSEWHERE, controller.at, &manner).expect("a connection");
        let window = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
        wire.send(&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &window].concat())
            .expect("a preface");
        wire
    };
    thread::scope(|scope| {
        let started: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| (0..count / THREADS).map(|_| open()).collect::<Vec<_>>()))
            .collect();
        started
            .into_iter()
            .map(|some| some.join().expect("connections"))
            .collect()
    })
}

/// Requests a large document and a small answer in alternation, until all is sent or the connection
/// is closed.
fn ask(wire: &mut Wire) {
    wire.socket()
        .set_write_timeout(Some(Duration::from_secs(1)))
        .expect("a socket");
    let paths = ["/edge/management/v1/openapi.json", "/version"];
    let asked: Vec<u8> = (0..REQUESTS)
        .zip(paths.iter().cycle())
        .flat_map(|(n, path)| request(path, 2 * n + 1))
        .collect();
    // The connection may be closed, or not be read any further: both are measured.
    drop(wire.send(&asked));
}

fn request(path: &str, stream: u32) -> Vec<u8> {
    let length = u8::try_from(path.len()).expect("a short path");
    frame(
        1,
        5,
        stream,
        &[
            b"\x82\x87\x44",
            &[length][..],
            path.as_bytes(),
            b"\x41\x05bench\x90",
        ]
        .concat(),
    )
}

fn frame(kind: u8, flags: u8, stream: u32, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len())
        .expect("a short frame")
        .to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), bytes].concat()
}
