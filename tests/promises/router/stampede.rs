//! After a restart every client comes back at once, and log-ins over REST are answered meanwhile.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use overkeep::testing::clock::Clock;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::sleep,
};

use super::{
    scene::{Member, run, runtime},
    sdk::{Options, Sdk},
};
use crate::harness::TestServer;

const CLIENTS: usize = 1000;
/// Far fewer handshakes than clients.
const HANDSHAKES: usize = 64;

fn set(config: &mut overkeep::testing::config::Config) {
    config.router.enabled = true;
    config.router.max_channels_per_identity = 2 * CLIENTS;
    config.http.max_handshakes = HANDSHAKES;
}

/// A channel over TLS. Like an SDK, it tries again if the connection is closed before it is open.
async fn come_back(member: &Member, at: SocketAddr, number: usize) -> Sdk {
    // Older SDKs offer no ALPN protocol.
    let offers: &[&str] = if number.is_multiple_of(2) { &["ziti-edge"] } else { &[] };
    loop {
        if let Ok(stream) = member.try_tls(at, offers, vec![member.leaf.clone()], false).await
            && let Ok(sdk) = Sdk::connect(stream, member.token(), Options::GO).await
        {
            return sdk;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// The duration of a log-in by certificate, on a connection of its own.
async fn log_in(member: &Member, at: SocketAddr) -> Duration {
    let start = Instant::now();
    let mut stream = member.tls(at, &["http/1.1"], vec![member.leaf.clone()], false).await;
    let request =
        "POST /edge/client/v1/authenticate?method=cert HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    start.elapsed()
}

#[test]
fn returning_clients_leave_log_ins_working() {
    let server = TestServer::with(Clock::system(), set);
    let (member, other) = (Member::new(&server, "member"), Member::new(&server, "other"));
    let server = server.restarted(set);
    run(async {
        let (at, start) = (server.bound(), Instant::now());
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let member = member.clone();
                runtime().spawn(async move { come_back(&member, at, number).await })
            })
            .collect();
        let mut times = Vec::new();
        while !clients.iter().all(tokio::task::JoinHandle::is_finished) {
            times.push(log_in(&other, at).await);
        }
        let stampede = start.elapsed();
        let channels = futures_util::future::join_all(clients).await;
        assert!(channels.iter().all(|channel| !channel.as_ref().unwrap().is_closed()));
        assert_eq!(server.router().channels().len(), CLIENTS);
        times.sort();
        let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
        println!("{CLIENTS} channels took {stampede:?}; {} log-ins took {median:?} (median), {slowest:?} (slowest)", times.len());
        // A log-in that waited for its turn behind the clients would take as long as they do.
        assert!(slowest < stampede / 2, "a log-in took {slowest:?} of {stampede:?}");
        assert!(median < stampede / 8, "half of the log-ins took more than {median:?} of {stampede:?}");
    });
}
