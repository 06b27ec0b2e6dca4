//! Small mutations, new identities, and a policy over all identities.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Instant,
};

use serde_json::json;

use super::{
    Bench, calm,
    client::Client,
    corpus::{self, Asking},
    floors::{AT_ONCE, constant, fdatasync, health},
    load::{Load, Pair, part_of_rounds, repeated, steady},
    server::{CLIENT, MANAGEMENT, Server, create, parsed},
    sheet::{Figure, Value::Microseconds},
};

pub fn mutations(bench: &mut Bench) {
    for (writers, most) in [
        (1, None),
        (16, Some(150.0)),
        (64, Some(120.0)),
        (512, Some(120.0)),
    ] {
        let written = patches(bench, writers).beside(constant(bench));
        let fsync = fdatasync(&bench.corpus.file.with_extension("floor"));
        let name = format!("small mutations, {writers} at a time");
        let cpu = Figure::new(format!("{name}, CPU each"), Microseconds(written.rate.cpu)).flat();
        let cpu = cpu.beside("a constant", Microseconds(written.floor.cpu), written.times);
        let cpu = if let Some(most) = most {
            cpu.at_most(Microseconds(most))
        } else {
            cpu
        };
        bench.sheet.add(cpu);
        let time = |name: String, value: f64| {
            Figure::new(name, Microseconds(value)).floor("one fdatasync", Microseconds(fsync))
        };
        if writers == 1 {
            let alone = time(format!("{name}, time each"), written.rate.median);
            bench.sheet.add(
                alone
                    .goal("2.5 fdatasyncs", written.rate.median <= 2.5 * fsync)
                    .flat()
                    .latency(name.clone(), written.rate.median),
            );
        }
        if writers >= 64 {
            let met = written.rate.p99 <= 2.0 * fsync + 5_000.0;
            bench.sheet.add(
                time(format!("{name}, p99"), written.rate.p99).goal("2 fdatasyncs + 5 ms", met),
            );
        }
    }
}

/// Small mutations of one service, so many at a time.
pub fn patches(bench: &Bench, writers: usize) -> Load<'_> {
    let path = format!("{MANAGEMENT}/services/{}", bench.corpus.services[0]);
    let write = move |client: &mut Client, n| {
        _ = client.send("PATCH", &path, &format!(r#"{{"tags":{{"n":{n}}}}}"#))
    };
    steady(
        &bench.server,
        bench.server.clients(&bench.token, writers),
        write,
    )
}

/// New identities with a one-time token.
pub fn identities(bench: &mut Bench) {
    against_empty(bench, "a new identity with a one-time token", created);
}

/// Certificates for such tokens.
pub fn certificates(bench: &mut Bench) {
    against_empty(bench, "a token turned into a certificate", enrolled);
}

fn against_empty(bench: &mut Bench, name: &str, load: fn(&Server) -> Load<'_>) {
    // On separate controllers, so that the new records do not affect other figures.
    let [(_model, _, here), (_new, _, empty)] =
        [bench.corpus.size, corpus::NONE].map(|size| bench.fresh(size, Asking::Nobody));
    let Pair { rate, floor, times } = load(&here).beside(load(&empty));
    let figure = Figure::new(format!("{name}, CPU"), Microseconds(rate.cpu)).beside(
        "on an empty file",
        Microseconds(floor.cpu),
        times,
    );
    bench.sheet.add(
        figure
            .goal("1.2x on an empty file", times <= 1.2)
            .flat()
            .latency(name, rate.median),
    );
}

pub fn created(server: &Server) -> Load<'_> {
    let (_, token) = server.login("admin");
    steady(server, server.clients(&token, AT_ONCE), |client, _| {
        drop(newcomer(client))
    })
}

/// A new identity with a one-time token.
fn newcomer(client: &mut Client) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let n = NEXT.fetch_add(1, Relaxed);
    let roles = ["role0", "role3", "role5"];
    let new = json!({ "name": format!("newcomer-{n}"), "type": "Device", "isAdmin": false, "roleAttributes": roles, "enrollment": { "ott": true } });
    create(client, "/identities", &new)
}

fn enrolled(server: &Server) -> Load<'_> {
    const TOKENS: usize = 100;
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
    let request = rcgen::CertificateParams::default()
        .serialize_request(&key)
        .and_then(|request| request.pem())
        .expect("a request");
    let (mut admin, _) = server.login("admin");
    let mut token = move || {
        let id = newcomer(&mut admin);
        let detail = parsed(admin.send("GET", &format!("{MANAGEMENT}/identities/{id}"), ""));
        detail["data"]["enrollment"]["ott"]["token"]
            .as_str()
            .expect("a token")
            .to_owned()
    };
    let prepare = move || {
        (
            Client::new(server.at, ""),
            (0..TOKENS).map(|_| token()).collect(),
        )
    };
    repeated(
        server,
        TOKENS,
        prepare,
        move |(client, tokens): &mut (Client, Vec<String>), _| {
            let token = tokens.pop().expect("a token");
            client.send(
                "POST",
                &format!("{CLIENT}/enroll?method=ott&token={token}"),
                &request,
            );
        },
    )
}

/// A policy over all identities and a tenth of the services changes from Dial to Bind and back: the
/// time until the answer, and until a client's service list shows it.
pub fn policy(bench: &mut Bench) {
    const TIMES: usize = 40;
    let (mut admin, _) = bench.server.login("admin");
    let (mut somebody, _) = bench.server.login(&bench.corpus.users[1]);
    let path = format!("{MANAGEMENT}/service-policies/{}", bench.corpus.policy);
    let list = format!("{CLIENT}/services?limit=500");
    let fsync = fdatasync(&bench.corpus.file.with_extension("floor"));
    let mut turned = |n: usize| {
        let right = if n.is_multiple_of(2) { "Bind" } else { "Dial" };
        let start = Instant::now();
        admin.send("PATCH", &path, &json!({ "type": right }).to_string());
        let answered = start.elapsed().as_secs_f64() * 1e6;
        let shown = somebody.send("GET", &list, "");
        let seen = start.elapsed().as_secs_f64() * 1e6;
        let binds = shown.windows(6).any(|bytes| bytes == b"\"Bind\"");
        assert_eq!(
            binds,
            n.is_multiple_of(2),
            "the list is not as new as the policy"
        );
        (answered, seen)
    };
    let (answered, seen): (Vec<Vec<f64>>, Vec<Vec<f64>>) =
        calm::rounds(|| (0..TIMES).map(&mut turned).unzip())
            .into_iter()
            .unzip();
    let mut add = |name: &str, what: &str, times: &[Vec<f64>]| {
        let p99 = part_of_rounds(times, 0.99);
        let figure =
            Figure::new(name, Microseconds(p99)).floor("one fdatasync", Microseconds(fsync));
        bench.sheet.add(
            figure
                .goal("one fdatasync + 5 ms", p99 <= fsync + 5_000.0)
                .latency(what, part_of_rounds(times, 0.5)),
        );
    };
    add(
        "a policy over everybody changes: until it is answered, p99",
        "a policy over everybody changes: until answered",
        &answered,
    );
    add(
        "until the first list of 500 services shows it, p99",
        "a policy over everybody changes: until a list shows it",
        &seen,
    );
    let turned = json!({ "type": "Bind" }).to_string();
    let preview =
        |client: &mut Client| _ = client.send("PATCH", &format!("{path}?preview=true"), &turned);
    previews(
        bench,
        "the same as a preview",
        "a policy over everybody changes, as a preview",
        20,
        preview,
    );
}

/// A preview of deleting the identity that is in every policy.
pub fn deletion(bench: &mut Bench) {
    let path = format!(
        "{MANAGEMENT}/identities/{}?preview=true",
        bench.corpus.everywhere
    );
    let what = "deleting the identity that is in every policy, as a preview";
    previews(bench, what, what, 5, |client| {
        _ = client.send("DELETE", &path, "")
    });
}

/// Previews, so many per round.
fn previews(
    bench: &mut Bench,
    name: &str,
    what: &str,
    times: usize,
    preview: impl Fn(&mut Client),
) {
    let client = || bench.server.login("admin").0;
    let constant = repeated(&bench.server, times, client, |client, _| health(client));
    let Pair { rate, floor, .. } =
        repeated(&bench.server, times, client, |client, _| preview(client)).beside(constant);
    let figure = Figure::new(format!("{name}, p99"), Microseconds(rate.p99))
        .floor("a constant", Microseconds(floor.p99));
    bench.sheet.add(
        figure
            .at_most(Microseconds(100_000.0))
            .latency(what, rate.median),
    );
}
