//! After a restart every client comes back at once: log-ins over REST are answered meanwhile, and
//! the handshakes in progress and the memory are bounded. The controller is a process of its own,
//! so that its memory is its own.

use std::{
    fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use model::clock::Clock;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::sleep,
};

use super::{
    scene::{Member, run, runtime},
    sdk::{Options, Sdk},
};
use crate::harness::{Program, TestServer, command, trusting};

const CLIENTS: usize = 1000;
/// Far fewer handshakes than clients.
const HANDSHAKES: usize = 64;
/// Clients of the router hold at most half of the slots for handshakes.
const OF_ROUTER: usize = HANDSHAKES / 2;
/// A client waits this long between its TLS handshake and its hello, so that the limit is reached.
const PAUSE: Duration = Duration::from_millis(50);
/// The most memory for one client, in KiB.
const MEMORY: usize = 100;

/// How many clients have completed the TLS handshake and have not sent their hello, and the most at
/// a time.
#[derive(Default)]
struct Unauthenticated {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A channel over TLS. Like an SDK, it tries again if the connection is closed before it is open.
async fn come_back(
    member: &Member,
    at: SocketAddr,
    number: usize,
    unauthenticated: &Unauthenticated,
) -> Sdk {
    // Older SDKs offer no ALPN protocol.
    let offers: &[&str] = if number.is_multiple_of(2) {
        &["ziti-edge"]
    } else {
        &[]
    };
    loop {
        if let Ok(stream) = member
            .try_tls(at, offers, vec![member.leaf.clone()], false)
            .await
        {
            let now = unauthenticated.now.fetch_add(1, Ordering::SeqCst) + 1;
            unauthenticated.most.fetch_max(now, Ordering::SeqCst);
            sleep(PAUSE).await;
            unauthenticated.now.fetch_sub(1, Ordering::SeqCst);
            if let Ok(sdk) = Sdk::connect(stream, member.token(), Options::GO).await {
                return sdk;
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// The duration of a log-in by certificate, on a connection of its own.
async fn log_in(member: &Member, at: SocketAddr) -> Duration {
    let start = Instant::now();
    let mut stream = member
        .tls(at, &["http/1.1"], vec![member.leaf.clone()], false)
        .await;
    let request = "POST /edge/client/v1/authenticate?method=cert HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    start.elapsed()
}

/// A line of the status of a process that is a number of KiB: `VmRSS`, its memory, or `VmHWM`, the
/// most that it had.
fn memory(program: &Program, line: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", program.process.id())).unwrap();
    let line = status
        .lines()
        .find(|found| found.starts_with(line))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[ignore = "endurance"]
fn returning_clients_leave_log_ins_working() {
    let server = TestServer::with(Clock::system(), |config| config.router.enabled = true);
    let (member, other) = (
        Member::new(&server, "member"),
        Member::new(&server, "other"),
    );
    let (password, directory) = (server.password.clone(), server.closed());
    let mut command = command(directory.path());
    command
        .env("OVERKEEP_ROUTER_ENABLED", "true")
        .env("OVERKEEP_HTTP_WORKERS", "2");
    command.env("OVERKEEP_HTTP_MAX_HANDSHAKES", HANDSHAKES.to_string());
    command.env(
        "OVERKEEP_ROUTER_MAX_CHANNELS_PER_IDENTITY",
        (2 * CLIENTS).to_string(),
    );
    let program = Program::of(command.spawn().unwrap()).unwrap();
    let at: SocketAddr = program.url.trim_start_matches("https://").parse().unwrap();
    let admin = trusting(&program.url).log_in("admin", &password);
    run(async {
        log_in(&other, at).await;
        let (before, start) = (memory(&program, "VmRSS"), Instant::now());
        let unauthenticated = Arc::<Unauthenticated>::default();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (member, unauthenticated) = (member.clone(), unauthenticated.clone());
                runtime()
                    .spawn(async move { come_back(&member, at, number, &unauthenticated).await })
            })
            .collect();
        let mut times = Vec::new();
        while !clients.iter().all(tokio::task::JoinHandle::is_finished) {
            times.push(log_in(&other, at).await);
        }
        let stampede = start.elapsed();
        let channels = futures_util::future::join_all(clients).await;
        assert!(
            channels
                .iter()
                .all(|channel| !channel.as_ref().unwrap().is_closed())
        );
        assert_eq!(
            admin
                .get("/overkeep/v1/channels?limit=1")
                .expect(200)
                .total(),
            CLIENTS as u64
        );
        times.sort();
        let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
        println!(
            "{CLIENTS} channels took {stampede:?}; {} log-ins took {median:?} (median), {slowest:?} (slowest)",
            times.len()
        );
        // A log-in that waited for its turn behind the clients would take as long as they do.
        assert!(
            slowest < stampede / 2,
            "a log-in took {slowest:?} of {stampede:?}"
        );
        assert!(
            median < stampede / 8,
            "half of the log-ins took more than {median:?} of {stampede:?}"
        );
        let most = unauthenticated.most.load(Ordering::SeqCst);
        assert!(
            most <= OF_ROUTER,
            "{most} clients of the router were served before they were authenticated"
        );
        let each = (memory(&program, "VmHWM") - before) / CLIENTS;
        println!("{most} handshakes at once, {each} KiB for each client at most");
        assert!(each <= MEMORY, "{each} KiB for each client");
    });
}
