//! What is measured.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use super::{
    floors::{self, copier},
    process::resident,
    row,
    spent::Spent,
    stage::{DELAY, Running, Stage, receive, send},
};

/// Bytes of a transfer: a gigabyte.
const BYTES: usize = 1_000_000_000;
/// Connections that are opened one after the other by each of some threads.
const OPENED: usize = 200;
const THREADS: usize = 4;
/// Connections that are open at the same time.
const IDLE: usize = 1_000;
/// Starts of a command, of which the median counts.
const STARTS: usize = 11;

fn upload(socket: &mut TcpStream) {
    writeln!(socket, "u{BYTES}").unwrap();
    send(socket, BYTES).unwrap();
    socket.read_exact(&mut [0]).unwrap();
}

fn download(socket: &mut TcpStream) {
    writeln!(socket, "d{BYTES}").unwrap();
    receive(socket, BYTES).unwrap();
}

/// CPU seconds for a gigabyte, of each side.
pub fn bulk(stage: &Stage) {
    const GOAL: f64 = 1.3;
    let ((encrypt, decrypt), (write, read)) = (floors::cipher(), floors::tls());
    type Carry = fn(&mut TcpStream);
    let directions: [(&str, Carry, &Running, &Running); 2] = [
        ("to the host", upload, &stage.forward, &stage.host),
        ("from the host", download, &stage.host, &stage.forward),
    ];
    for (direction, carry, sender, receiver) in directions {
        let copied = floors::sockets(stage.server, carry);
        println!(
            "floors {direction}: sockets {copied:.3}, cipher {encrypt:.3} and {decrypt:.3}, TLS {write:.3} and {read:.3}"
        );
        let of = |process: &Running| Spent::of(process.0.id());
        let before = (of(sender), of(receiver));
        let begin = Instant::now();
        carry(&mut TcpStream::connect(stage.port).unwrap());
        let took = begin.elapsed().as_secs_f64();
        let (sent, received) = (of(sender).since(&before.0), of(receiver).since(&before.1));
        let floor = copied + encrypt + write;
        let goal = Some(("<= 1.3", sent / floor <= GOAL));
        row(&format!("CPU s/GB {direction}, sender"), floor, sent, goal);
        let floor = copied + decrypt + read;
        let goal = Some(("<= 1.3", received / floor <= GOAL));
        row(
            &format!("CPU s/GB {direction}, receiver"),
            floor,
            received,
            goal,
        );
        println!("  {:.0} Mbit/s", BYTES as f64 * 8.0 / took / 1e6);
    }
}

fn median(mut all: Vec<Duration>) -> f64 {
    all.sort();
    all[all.len() / 2].as_secs_f64() * 1e3
}

/// From the start of the command until a byte has come back. The floor is the same without a
/// delay, which has the time for the process and the cryptography.
pub fn start(stage: &Stage) {
    const TRIPS: f64 = 6.0;
    const MORE: f64 = 20.0;
    let directory = tempfile::TempDir::new().unwrap();
    let away = Stage::far(directory.path());
    let took = |stage: &Stage| median((0..STARTS).map(|_| stage.first_byte()).collect());
    let (near, far) = (took(stage), took(&away));
    let round_trip = DELAY.as_secs_f64() * 2e3;
    let goal = Some(("<= 6 round trips + 20 ms", far <= TRIPS * round_trip + MORE));
    row("ms from start to first byte, 20 ms away", near, far, goal);
    println!("  {:.1} round trips", (far - near) / round_trip);
}

/// How many connections a port opens in a second, each with one byte there and back.
pub fn connections(stage: &Stage) {
    let (_copier, plain) = copier(stage.server);
    let rate = |port: SocketAddr| {
        let begin = Instant::now();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..OPENED {
                        let mut socket = TcpStream::connect(port).unwrap();
                        socket.write_all(b"x").unwrap();
                        socket.read_exact(&mut [0]).unwrap();
                    }
                });
            }
        });
        (OPENED * THREADS) as f64 / begin.elapsed().as_secs_f64()
    };
    row("connections/s", rate(plain), rate(stage.port), None);
}

/// The memory of connections that carry nothing.
pub fn idle(stage: &Stage) {
    const GOAL: f64 = 20.0;
    let before = [&stage.forward, &stage.host].map(|process| resident(&process.0));
    let mut all = Vec::new();
    for _ in 0..IDLE {
        let mut socket = TcpStream::connect(stage.port).unwrap();
        socket.write_all(b"x").unwrap();
        socket.read_exact(&mut [0]).unwrap();
        all.push(socket);
    }
    let after = [&stage.forward, &stage.host].map(|process| resident(&process.0));
    for (place, name) in ["forward", "host"].iter().enumerate() {
        let kib = (after[place].saturating_sub(before[place])) as f64 / 1024.0 / IDLE as f64;
        let met = if kib <= GOAL { "met" } else { "missed" };
        println!("memory of an idle connection, {name}: {kib:.1} KiB   <= {GOAL}: {met}");
    }
}
