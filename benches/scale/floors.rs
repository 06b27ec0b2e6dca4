//! The floors: lower bounds measured in the same run as the figures.

use std::{fs::OpenOptions, os::unix::fs::FileExt, path::Path, time::Instant};

use super::{
    Bench, calm,
    client::Client,
    load::{Load, of_new, steady},
    server::CLIENT,
};

/// The number of connections that share the work if only the server's CPU counts.
pub const CONNECTIONS: usize = 8;
/// The number of clients that log in at the same time.
pub const AT_ONCE: usize = 16;

/// Requests a constant.
pub fn health(client: &mut Client) {
    client.send("GET", "/health", "");
}

/// Repeated requests for a constant.
pub fn constant(bench: &Bench) -> Load<'_> {
    steady(
        &bench.server,
        bench.server.clients("", CONNECTIONS),
        |client, _| health(client),
    )
}

/// Repeated requests for the version, which need no session.
pub fn version(bench: &Bench) -> Load<'_> {
    steady(
        &bench.server,
        bench.server.clients("", CONNECTIONS),
        |client, _| _ = client.send("GET", &format!("{CLIENT}/version"), ""),
    )
}

/// A connection with a certificate and without a request.
pub fn handshake(bench: &Bench) -> Load<'_> {
    let (server, credentials) = (&bench.server, &bench.corpus.credentials[0]);
    of_new(
        server,
        usize::MAX,
        || vec![(); AT_ONCE],
        |(), _| drop(Client::presenting(server.at, credentials)),
    )
}

/// The time of a page write with fdatasync in a file of full length, in microseconds.
pub fn fdatasync(path: &Path) -> f64 {
    const EACH: u64 = 200;
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .expect("a file");
    file.write_all_at(&vec![1; 1 << 20], 0)
        .and_then(|()| file.sync_all())
        .expect("a page");
    calm::median(|| {
        let start = Instant::now();
        for count in 0..EACH {
            file.write_all_at(&[count as u8; 4096], count % 256 * 4096)
                .and_then(|()| file.sync_data())
                .expect("a sync");
        }
        start.elapsed().as_secs_f64() * 1e6 / EACH as f64
    })
}
