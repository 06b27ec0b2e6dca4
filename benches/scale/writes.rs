//! Small mutations, new identities, a policy over everybody.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use serde_json::json;

use super::{
    Bench, calm,
    client::Client,
    floors::{AT_ONCE, fdatasync},
    load::{Rate, part_of_rounds, rate, repeated, timed},
    server::{CLIENT, MANAGEMENT, Server, create, parsed},
    sheet::{Figure, Value::Microseconds},
};

pub fn measure(bench: &mut Bench<'_>) {
    mutations(bench);
    newcomers(bench);
    policy(bench);
    deletion(bench);
}

fn mutations(bench: &mut Bench<'_>) {
    let path = format!("{MANAGEMENT}/services/{}", bench.corpus.services[0]);
    for (writers, most) in [(1, None), (16, Some(150.0)), (64, Some(120.0)), (512, Some(120.0))] {
        let refused = AtomicUsize::new(0);
        let written = rate(bench.server, &mut bench.clients(&bench.token, writers), |client, n| {
            let (status, _) = client.ask("PATCH", &path, &format!(r#"{{"tags":{{"n":{n}}}}}"#));
            refused.fetch_add(usize::from(status != 200), Relaxed);
        });
        assert_eq!(refused.into_inner(), 0, "writes were refused");
        let fsync = fdatasync(&bench.corpus.file.with_extension("floor"));
        let name = format!("small mutations, {writers} at a time");
        let cpu = Figure::new(format!("{name}, CPU each"), Microseconds(written.cpu)).flat();
        let cpu = if let Some(most) = most { cpu.at_most(Microseconds(most)) } else { cpu };
        bench.sheet.add(cpu);
        let time = |name: String, value: f64| Figure::new(name, Microseconds(value)).floor("one fdatasync", Microseconds(fsync));
        if writers == 1 {
            let alone = time(format!("{name}, time each"), written.median);
            bench.sheet.add(alone.goal("2.5 fdatasyncs", written.median <= 2.5 * fsync).flat().latency(name.clone(), written.median));
        }
        if writers >= 64 {
            let met = written.p99 <= 2.0 * fsync + 5_000.0;
            bench.sheet.add(time(format!("{name}, p99"), written.p99).goal("2 fdatasyncs + 5 ms", met));
        }
    }
}

/// New identities with a one-time token, and certificates for these tokens.
fn newcomers(bench: &mut Bench<'_>) {
    let next = AtomicUsize::new(0);
    let created = |server: &Server| {
        let (_, token) = server.login("admin");
        let mut clients: Vec<Client> = (0..AT_ONCE).map(|_| Client::new(server.at, &token)).collect();
        rate(server, &mut clients, |client, _| drop(newcomer(client, next.fetch_add(1, Relaxed))))
    };
    let (here, empty) = (created(bench.server), created(bench.empty));
    against_empty(bench, "a new identity with a one-time token", &here, &empty);
    let (here, empty) = (enrolled(bench.server, &next), enrolled(bench.empty, &next));
    against_empty(bench, "a token turned into a certificate", &here, &empty);
}

fn against_empty(bench: &mut Bench<'_>, name: &str, here: &Rate, empty: &Rate) {
    let figure = Figure::new(format!("{name}, CPU"), Microseconds(here.cpu)).floor("on an empty file", Microseconds(empty.cpu));
    bench.sheet.add(figure.goal("1.2x on an empty file", here.cpu <= 1.2 * empty.cpu).flat().latency(name, here.median));
}

fn newcomer(client: &mut Client, n: usize) -> String {
    let roles = ["role0", "role3", "role5"];
    let new = json!({ "name": format!("newcomer-{n}"), "type": "Device", "isAdmin": false, "roleAttributes": roles, "enrollment": { "ott": true } });
    create(client, "/identities", &new)
}

fn enrolled(server: &Server, next: &AtomicUsize) -> Rate {
    const TOKENS: usize = 100;
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
    let request = rcgen::CertificateParams::default().serialize_request(&key).and_then(|request| request.pem()).expect("a request");
    let (mut admin, _) = server.login("admin");
    let mut token = || {
        let id = newcomer(&mut admin, next.fetch_add(1, Relaxed));
        let detail = parsed(admin.send("GET", &format!("{MANAGEMENT}/identities/{id}"), ""));
        detail["data"]["enrollment"]["ott"]["token"].as_str().expect("a token").to_owned()
    };
    let tokens = Mutex::new(Vec::new());
    let prepare = || {
        tokens.lock().expect("tokens").extend((0..TOKENS).map(|_| token()));
        Client::new(server.at, "")
    };
    repeated(server, TOKENS, prepare, |client, _| {
        let token = tokens.lock().expect("tokens").pop().expect("a token");
        client.send("POST", &format!("{CLIENT}/enroll?method=ott&token={token}"), &request);
    })
}

/// A policy over all identities and a tenth of the services turns from Dial to Bind and back: until it is answered, and until
/// somebody's list of services says so.
fn policy(bench: &mut Bench<'_>) {
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
        assert_eq!(binds, n.is_multiple_of(2), "the list is not as new as the policy");
        (answered, seen)
    };
    let (answered, seen): (Vec<Vec<f64>>, Vec<Vec<f64>>) = calm::rounds(|| (0..TIMES).map(&mut turned).unzip()).into_iter().unzip();
    let mut add = |name: &str, what: &str, times: &[Vec<f64>]| {
        let p99 = part_of_rounds(times, 0.99);
        let figure = Figure::new(name, Microseconds(p99)).floor("one fdatasync", Microseconds(fsync));
        bench.sheet.add(figure.goal("one fdatasync + 5 ms", p99 <= fsync + 5_000.0).latency(what, part_of_rounds(times, 0.5)));
    };
    add("a policy over everybody changes: until it is answered, p99", "a policy over everybody changes: until answered", &answered);
    add("until the first list of 500 services shows it, p99", "a policy over everybody changes: until a list shows it", &seen);
    let turned = json!({ "type": "Bind" }).to_string();
    let mut preview = |_| timed(|| _ = admin.send("PATCH", &format!("{path}?preview=true"), &turned));
    let previews = calm::rounds(|| (0..20).map(&mut preview).collect());
    add_preview(bench, "the same as a preview", "a policy over everybody changes, as a preview", &previews);
}

/// What deleting the identity that is in every policy would do.
fn deletion(bench: &mut Bench<'_>) {
    let (mut admin, _) = bench.server.login("admin");
    let path = format!("{MANAGEMENT}/identities/{}?preview=true", bench.corpus.everywhere);
    let mut preview = |_| timed(|| _ = admin.send("DELETE", &path, ""));
    let previews = calm::rounds(|| (0..5).map(&mut preview).collect());
    let what = "deleting the identity that is in every policy, as a preview";
    add_preview(bench, what, what, &previews);
}

fn add_preview(bench: &mut Bench<'_>, name: &str, what: &str, times: &[Vec<f64>]) {
    let figure = Figure::new(format!("{name}, p99"), Microseconds(part_of_rounds(times, 0.99)));
    bench.sheet.add(figure.at_most(Microseconds(100_000.0)).latency(what, part_of_rounds(times, 0.5)));
}
