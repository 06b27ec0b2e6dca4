//! Log-ins with certificates, and the end of very many sessions at once.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use super::{
    Bench,
    calm::ROUNDS,
    client::{Client, Credentials},
    floors::{AT_ONCE, fdatasync, handshake},
    load::{Load, of_new, part, steady, timed},
    server::{CLIENT, MANAGEMENT, token},
    sheet::{
        Figure,
        Value::{Microseconds, Times},
    },
};

const SESSIONS: usize = 10_000;

fn log_in(client: &mut Client) -> String {
    token(client.send("POST", &format!("{CLIENT}/authenticate?method=cert"), ""))
}

pub fn certificate(bench: &mut Bench) {
    let opened = log_ins(bench).beside(handshake(bench));
    let name = "login with a certificate on a new connection, 16 at a time";
    let figure = Figure::new(format!("{name}, CPU"), Microseconds(opened.rate.cpu));
    let figure = figure.beside(
        "such a connection alone",
        Microseconds(opened.floor.cpu),
        opened.times,
    );
    let figure = figure
        .goal("1.5x such a connection", opened.times <= 1.5)
        .flat();
    bench.sheet.add(figure.latency(name, opened.rate.median));
}

/// Each on a new connection.
pub fn log_ins(bench: &Bench) -> Load<'_> {
    let (server, all) = (&bench.server, &bench.corpus.credentials);
    let enter = |(): &mut (), n| {
        drop(log_in(&mut Client::presenting(
            server.at,
            &all[n % all.len()],
        )))
    };
    of_new(server, usize::MAX, || vec![(); AT_ONCE], enter)
}

/// Ten thousand sessions of one identity: their cost for others, and how long it takes to end them.
pub fn end(bench: &mut Bench) {
    // An identity that other figures do not use.
    let holder = 1;
    let credentials = &bench.corpus.credentials[holder];
    let who = log_in_as(bench, credentials);
    let detail = format!("{MANAGEMENT}/identities/{who}");
    let before = looks(bench, &detail);
    let (mut ended, mut writes, mut reads) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let last = open(bench, credentials);
        if round == 0 {
            let after = looks(bench, &detail);
            for (name, before, after) in [
                ("detail", before.0, after.0),
                ("page of 100", before.1, after.1),
            ] {
                let figure = Figure::new(
                    format!("{name} of identities, with 10,000 sessions : without"),
                    Times(after / before),
                );
                bench.sheet.add(figure.at_most(Times(1.2)));
            }
        }
        let [time, write, read] = disable(bench, &detail);
        ended.push(time);
        writes.push(write);
        reads.push(read);
        let (status, _) = Client::new(bench.server.at, &last).ask(
            "GET",
            &format!("{CLIENT}/current-api-session"),
            "",
        );
        assert_eq!(status, 401, "a session outlived its end");
        Client::new(bench.server.at, &bench.token).send("POST", &format!("{detail}/enable"), "");
    }
    let fsync = fdatasync(&bench.corpus.file.with_extension("floor"));
    let mut add = |name: &str, mut times: Vec<f64>| {
        let time = part(&mut times, 0.5);
        let figure =
            Figure::new(name, Microseconds(time)).floor("one fdatasync", Microseconds(fsync));
        bench
            .sheet
            .add(figure.goal("one fdatasync + 50 ms", time <= fsync + 50_000.0));
    };
    add("end of 10,000 sessions of one identity", ended);
    add("meanwhile, the longest wait of another's write", writes);
    add(
        "meanwhile, the longest wait of another's read, a detail of an identity",
        reads,
    );
}

/// The id of an identity.
fn log_in_as(bench: &Bench, credentials: &Credentials) -> String {
    let mut client = Client::presenting(bench.server.at, credentials);
    let answer = super::server::parsed(client.send(
        "POST",
        &format!("{CLIENT}/authenticate?method=cert"),
        "",
    ));
    answer["data"]["identityId"]
        .as_str()
        .expect("an identity")
        .to_owned()
}

/// The cost of a detail and of a page of identities.
fn looks(bench: &Bench, detail: &str) -> (f64, f64) {
    let of = |path: &str| {
        steady(
            &bench.server,
            bench.server.clients(&bench.token, 2),
            |client, _| _ = client.send("GET", path, ""),
        )
        .measure()
        .cpu
    };
    (
        of(detail),
        of(&format!("{MANAGEMENT}/identities?limit=100")),
    )
}

/// Opens the sessions and returns the token of one.
fn open(bench: &Bench, credentials: &Credentials) -> String {
    thread::scope(|scope| {
        let one = || {
            let mut client = Client::presenting(bench.server.at, credentials);
            (0..SESSIONS / AT_ONCE).map(|_| log_in(&mut client)).last()
        };
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(one)).collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().expect("a client"))
            .last()
            .expect("a token")
    })
}

/// Disables the identity. Returns the duration, and the longest write and read of other clients
/// during and right after it.
fn disable(bench: &Bench, detail: &str) -> [f64; 3] {
    let over = AtomicBool::new(false);
    let write = format!("{MANAGEMENT}/services/{}", bench.corpus.services[0]);
    let read = format!("{MANAGEMENT}/identities/{}", bench.corpus.everywhere);
    let longest = |method: &str, path: &str, body: &str| {
        let mut client = Client::new(bench.server.at, &bench.token);
        let mut longest: f64 = 0.0;
        while !over.load(Relaxed) {
            longest = longest.max(timed(|| _ = client.send(method, path, body)));
        }
        longest
    };
    thread::scope(|scope| {
        let writes = scope.spawn(|| longest("PATCH", &write, r#"{"tags":{"n":1}}"#));
        let reads = scope.spawn(|| longest("GET", &read, ""));
        thread::sleep(std::time::Duration::from_millis(50));
        let mut admin = Client::new(bench.server.at, &bench.token);
        let time = timed(|| {
            _ = admin.send(
                "POST",
                &format!("{detail}/disable"),
                r#"{"durationMinutes":0}"#,
            )
        });
        thread::sleep(std::time::Duration::from_millis(500));
        over.store(true, Relaxed);
        [
            time,
            writes.join().expect("a client"),
            reads.join().expect("a client"),
        ]
    })
}
