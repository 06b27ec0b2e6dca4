//! The parts of the bench.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use wire::frame::{Builder, content};

use super::{
    percentile, row,
    sdk::{Conn, Event, Sdk},
    spent::Spent,
    stage::Stage,
    wire::{Manner, Wire},
};

const CHUNK: usize = 32 << 10;
/// The number of bytes in all of one bulk transfer, and of dials. With `OVERKEEP_BENCH_SHORT` they
/// are a 32nd of it.
const BULK: usize = 1 << 30;
const MANY: usize = 50;
const DIALS: usize = 2000;
/// The number of circuits that are dialed at the same time.
const AT_ONCE: usize = 16;
const PINGS: usize = 1000;
const REQUESTS: usize = 3000;
const IDLE: usize = 10_000;
const GB: f64 = 1e9;

/// A number of bytes or dials, or the part of it that shows that the bench works.
fn sized(full: usize) -> usize {
    if std::env::var_os("OVERKEEP_BENCH_SHORT").is_some() {
        full / 32
    } else {
        full
    }
}

/// The duration of some work, and the CPU time that a process spent on it; both in seconds.
fn cost<T>(stage: &Stage, process: u32, work: impl Future<Output = T>) -> (f64, f64) {
    let (before, start) = (Spent::of(process), Instant::now());
    stage.runtime.block_on(work);
    (
        start.elapsed().as_secs_f64(),
        Spent::of(process).since(&before),
    )
}

/// Throughput and CPU time of transfers from client to host, over one circuit and over many.
pub fn bulk(stage: &Stage) {
    let (plain, router) = (stage.plain.process.id(), stage.router());
    let bulk = sized(BULK);
    let (_, raw) = cost(stage, plain, stage.plain.fill(bulk));
    for (circuits, what) in [(1, "one circuit"), (MANY, "50 circuits")] {
        let bytes = bulk / circuits / CHUNK * CHUNK;
        let gb = (bytes * circuits) as f64 / GB;
        let ends = stage.runtime.block_on(ends(stage, circuits));
        // Floor, router, floor, so that other load affects both.
        let (floor, floor_cpu) = cost(stage, plain, stage.plain.carry(circuits, bytes));
        let (time, cpu) = cost(stage, router, carry(ends, bytes));
        let (again, again_cpu) = cost(stage, plain, stage.plain.carry(circuits, bytes));
        let (floor, floor_cpu) = (floor.min(again), floor_cpu.min(again_cpu));
        let goal = ("at most 1.3", cpu <= 1.3 * floor_cpu);
        row(
            &format!("{what}: CPU seconds per GB, plain relay as floor"),
            floor_cpu / gb,
            cpu / gb,
            Some(goal),
        );
        row(
            &format!("{what}: CPU seconds per GB, one TLS end as floor"),
            raw / (bulk as f64 / GB),
            cpu / gb,
            None,
        );
        row(
            &format!("{what}: MB per second, plain relay as floor"),
            gb * 1000.0 / floor,
            gb * 1000.0 / time,
            None,
        );
    }
}

/// Opens circuits, five per channel on each side.
pub async fn ends(stage: &Stage, circuits: usize) -> Vec<(Conn, Conn)> {
    let mut ends = Vec::new();
    while ends.len() < circuits {
        let (dialer, mut host) = (stage.channel(&stage.dialer).await, stage.hosting().await);
        for _ in 0..5.min(circuits - ends.len()) {
            ends.push(stage.circuit(&dialer, &mut host).await);
        }
        // The next circuits must go to the next host.
        stage.unbind(&host).await;
    }
    ends
}

async fn carry(ends: Vec<(Conn, Conn)>, bytes: usize) {
    let carried: Vec<_> = ends
        .into_iter()
        .map(|(dialer, host)| {
            (
                tokio::spawn(write(dialer, bytes)),
                tokio::spawn(read(host, bytes)),
            )
        })
        .collect();
    for (written, read) in carried {
        let _open = written.await.unwrap();
        read.await.unwrap();
    }
}

async fn write(to: Conn, bytes: usize) -> Conn {
    let chunk = vec![7; CHUNK];
    for _ in 0..bytes / CHUNK {
        to.send(&chunk).await;
    }
    to
}

async fn read(mut from: Conn, bytes: usize) -> Conn {
    let mut left = bytes;
    while left > 0 {
        left -= from.data().await.len();
    }
    from
}

/// A probe on a channel; returns as soon as the router has read it.
async fn probe(sdk: &Sdk) {
    sdk.ask(Builder::new(content::LATENCY).bytes(128, &[0; 8]).empty())
        .await
        .unwrap();
}

/// The time from dial to connected, and the CPU time of opening and closing a circuit.
pub fn dials(stage: &Stage) {
    let dials = sized(DIALS);
    let mut times = Vec::new();
    let mut round_trips = Vec::new();
    let (_, cpu) = cost(stage, stage.router(), async {
        let (dialer, mut host) = (stage.channel(&stage.dialer).await, stage.hosting().await);
        let far = host.sdk.clone();
        let accepting = tokio::spawn(async move {
            for _ in 0..dials {
                host.accept().await;
            }
        });
        for _ in 0..dials {
            let start = Instant::now();
            let connection = stage.dial(&dialer).await;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            connection.close().await;
        }
        for _ in 0..dials {
            let start = Instant::now();
            probe(&dialer).await;
            probe(&far).await;
            round_trips.push(start.elapsed().as_secs_f64() * 1e3);
        }
        accepting.await.unwrap();
    });
    let (floor, time) = (percentile(round_trips, 0.5), percentile(times, 0.5));
    row(
        "dial to connected, ms; two round trips as floor",
        floor,
        time,
        Some(("floor + 0.2 ms", time <= floor + 0.2)),
    );
    let each = cpu * 1e3 / dials as f64;
    row(
        "a circuit opened and closed, ms of CPU",
        0.3,
        each,
        Some(("at most 0.3", each <= 0.3)),
    );
}

/// Circuits over a Go router: what they cost the Go controller, as floor, and the controller.
pub fn controllers(go: &Stage, own: &Stage) {
    let [first, own, again] = [go, own, go].map(circuits);
    row(
        "circuits per second over a Go router, its controller as floor",
        first.0.max(again.0),
        own.0,
        None,
    );
    row(
        "a circuit, ms of CPU of the controller, the same floor",
        first.1.min(again.1),
        own.1,
        None,
    );
}

/// Circuits per second, and the CPU time of the controller for one, in milliseconds.
fn circuits(stage: &Stage) -> (f64, f64) {
    let each = sized(DIALS) / AT_ONCE;
    let (dialer, mut host) = stage
        .runtime
        .block_on(async { (stage.channel(&stage.dialer).await, stage.hosting().await) });
    let dialing = async || {
        for _ in 0..each {
            stage.dial(&dialer).await.close().await;
        }
    };
    let accepting = async {
        for _ in 0..each * AT_ONCE {
            host.accept().await;
        }
    };
    let (time, cpu) = cost(stage, stage.controller.id(), async {
        tokio::join!(accepting, join_all((0..AT_ONCE).map(|_| dialing())));
    });
    let count = (each * AT_ONCE) as f64;
    stage.runtime.block_on(stage.unbind(&host));
    (count / time, cpu * 1e3 / count)
}

/// The round trip of a byte beside a transfer on the same channels.
pub fn ping(stage: &Stage) {
    stage.runtime.block_on(async {
        let (dialer, mut host) = (stage.channel(&stage.dialer).await, stage.hosting().await);
        let (mut near, mut far) = stage.circuit(&dialer, &mut host).await;
        let (bulk, sink) = stage.circuit(&dialer, &mut host).await;
        let (half, half_sink) = stage.circuit(&dialer, &mut host).await;
        stage.unbind(&host).await;
        let (second, mut second_host) = (stage.channel(&stage.dialer).await, stage.hosting().await);
        let (other, other_sink) = stage.circuit(&second, &mut second_host).await;
        let (rest, rest_sink) = stage.circuit(&second, &mut second_host).await;
        tokio::spawn(async move {
            while let Event::Data(message) = far.next().await {
                far.send(&message).await;
            }
        });
        let [plain_quiet, plain_beside] = stage
            .plain
            .pings(PINGS)
            .await
            .map(|times| percentile(times, 0.99));
        row(
            "a byte to and fro, p99 ms, the plain relay alone",
            plain_quiet,
            plain_beside,
            None,
        );
        let quiet = pings(&mut near).await;
        row(
            "a byte to and fro, p99 ms, quiet, plain relay as floor",
            plain_quiet,
            quiet,
            None,
        );
        let stop = Arc::new(AtomicBool::new(false));
        let flood = flood(other, other_sink, &stop);
        let beside = pings(&mut near).await;
        stop.store(true, Ordering::Relaxed);
        flood.await.unwrap();
        row(
            "a byte to and fro, p99 ms, beside another channel",
            quiet,
            beside,
            Some(("at most 5", beside <= 5.0 * quiet)),
        );
        row(
            "the same, the plain relay beside a transfer as floor",
            plain_beside,
            beside,
            None,
        );
        let stop = Arc::new(AtomicBool::new(false));
        let flood = self::flood(bulk, sink, &stop);
        let beside = pings(&mut near).await;
        stop.store(true, Ordering::Relaxed);
        flood.await.unwrap();
        row(
            "a byte to and fro, p99 ms, beside its own channel",
            quiet,
            beside,
            Some(("at most 5", beside <= 5.0 * quiet)),
        );
        // A group of two connections: the SDKs take messages for either from one queue, so that a
        // transfer occupies both.
        let stop = Arc::new(AtomicBool::new(false));
        let floods = [
            self::flood(half, half_sink, &stop),
            self::flood(rest, rest_sink, &stop),
        ];
        let beside = pings(&mut near).await;
        stop.store(true, Ordering::Relaxed);
        for flood in floods {
            flood.await.unwrap();
        }
        row(
            "the same, as of a group of two connections",
            quiet,
            beside,
            None,
        );
    });
}

async fn pings(connection: &mut Conn) -> f64 {
    percentile(echoes(connection, b"x", |count| count == PINGS).await, 0.99)
}

/// The times until a message has come back, in milliseconds, one after the other until it is done.
pub async fn echoes(
    connection: &mut Conn,
    message: &[u8],
    is_done: impl Fn(usize) -> bool,
) -> Vec<f64> {
    let mut times = Vec::new();
    while !is_done(times.len()) {
        let (start, mut left) = (Instant::now(), message.len());
        connection.send(message).await;
        while left > 0 {
            left -= connection.data().await.len();
        }
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times
}

/// Sends as fast as possible until it is stopped.
fn flood(from: Conn, mut to: Conn, stop: &Arc<AtomicBool>) -> tokio::task::JoinHandle<()> {
    let stop = stop.clone();
    let reading = tokio::spawn(async move { while let Event::Data(_) = to.next().await {} });
    tokio::spawn(async move {
        let chunk = vec![7; CHUNK];
        while !stop.load(Ordering::Relaxed) {
            from.send(&chunk).await;
        }
        from.finish().await;
        reading.await.unwrap();
    })
}

/// The cost of idle channels.
pub fn idle(stage: &Stage) {
    stage.runtime.block_on(async {
        let before = stage.controller.memory();
        let _channels = channels(stage).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let each = (stage.controller.memory() - before) / IDLE as f64;
        row(
            "an idle channel, KiB",
            40.0,
            each,
            Some(("at most 40", each <= 40.0)),
        );
    });
}

/// REST requests while traffic occupies every core.
pub fn rest(stage: &Stage) {
    let ask = || {
        let (mut wire, mut times) = (
            Wire::open(stage.controller.at, &Manner::plain()).unwrap(),
            Vec::with_capacity(REQUESTS),
        );
        for _ in 0..REQUESTS {
            let start = Instant::now();
            let answer = wire
                .ask(
                    "GET",
                    "/edge/client/v1/current-identity",
                    &stage.dialer.head,
                    "",
                )
                .unwrap();
            assert_eq!(answer.status, 200);
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        percentile(times, 0.99)
    };
    let quiet = ask();
    let stop = Arc::new(AtomicBool::new(false));
    let floods: Vec<_> = stage.runtime.block_on(async {
        ends(stage, 8)
            .await
            .into_iter()
            .map(|(from, to)| flood(from, to, &stop))
            .collect()
    });
    let busy = ask();
    stop.store(true, Ordering::Relaxed);
    stage.runtime.block_on(async {
        for flood in floods {
            flood.await.unwrap();
        }
    });
    row(
        "a request over REST, p99 ms, beside traffic",
        quiet,
        busy,
        Some(("at most 3", busy <= 3.0 * quiet)),
    );
}

/// Channels on which nothing is sent.
pub async fn channels(stage: &Stage) -> Vec<Sdk> {
    let mut channels = Vec::with_capacity(IDLE);
    for _ in 0..IDLE {
        channels.push(stage.channel(&stage.dialer).await);
    }
    channels
}
