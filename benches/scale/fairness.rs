//! How long cheap requests wait while somebody asks for something expensive.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use serde_json::json;

use super::{
    Bench,
    client::Client,
    corpus::identity,
    load::{paced_for, part},
    server::{CLIENT, MANAGEMENT, parsed},
    sheet::{
        Figure,
        Value::{Microseconds, Times},
    },
};

/// Cheap requests a second, and for how long.
const EACH_SECOND: f64 = 300.0;
const TIME: Duration = Duration::from_secs(3);

type Expensive<'e> = (&'static str, usize, Box<dyn Fn(&mut Client, usize) + Sync + 'e>);

pub fn measure(bench: &mut Bench<'_>) {
    let quiet = cheap(bench, &("", 0, Box::new(|_, _| ())));
    bench.sheet.add(Figure::new("cheap requests, nothing else going on, p99", Microseconds(quiet)));
    let policy = format!("{MANAGEMENT}/service-policies/{}", bench.corpus.policy);
    let database = |what: &str| format!("{MANAGEMENT}/database/{what}");
    let expensive: [Expensive<'_>; 5] = [
        (
            "a filter over all identities, 4 at a time",
            4,
            Box::new(|client, _| {
                client.ask("GET", &format!("{MANAGEMENT}/identities?filter=not%20isAdmin%20%3D%20false"), "");
            }),
        ),
        (
            "a policy over everybody changes, again and again",
            1,
            Box::new(|client, n| {
                client.send("PATCH", &policy, &json!({ "type": if n % 2 == 0 { "Bind" } else { "Dial" } }).to_string());
            }),
        ),
        (
            "an integrity check",
            1,
            Box::new(|client, _| {
                client.ask("POST", &database("check-data-integrity"), "");
                while parsed(client.send("GET", &database("data-integrity-results"), ""))["data"]["inProgress"] == true {
                    thread::sleep(Duration::from_millis(10));
                }
            }),
        ),
        (
            "a snapshot",
            1,
            Box::new(|client, _| {
                client.ask("POST", &database("snapshot"), "");
                thread::sleep(TIME);
            }),
        ),
        (
            "a flood of wrong passwords, 32 at a time",
            32,
            Box::new(|client, n| {
                let body = json!({ "username": identity(n), "password": "wrong password" }).to_string();
                client.ask("POST", &format!("{CLIENT}/authenticate?method=password"), &body);
            }),
        ),
    ];
    for one in &expensive {
        let waited = cheap(bench, one);
        let figure = Figure::new(format!("meanwhile {}: p99 : quiet", one.0), Times(waited / quiet));
        bench.sheet.add(figure.floor("quiet", Microseconds(quiet)).at_most(Times(3.0)));
    }
}

/// The p99 of a detail, a poll and a look-up by name in turn, while some clients do something else.
fn cheap(bench: &Bench<'_>, (_, clients, work): &Expensive<'_>) -> f64 {
    let over = AtomicBool::new(false);
    let (_, user) = bench.server.login(&identity(0));
    let detail = format!("{MANAGEMENT}/identities/{}", bench.corpus.everywhere);
    let named = format!("{MANAGEMENT}/identities?filter=name%3D%22{}%22", identity(bench.corpus.size.identities / 2));
    thread::scope(|scope| {
        for mut client in bench.clients(&bench.token, *clients) {
            let over = &over;
            scope.spawn(move || (0..).take_while(|_| !over.load(Relaxed)).for_each(|n| work(&mut client, n)));
        }
        thread::sleep(Duration::from_millis(100));
        let mut client = Client::new(bench.server.at, &bench.token);
        let mut latencies = paced_for(TIME, &mut client, EACH_SECOND, &mut 0, |client, n| {
            match n % 3 {
                0 => client.send("GET", &detail, ""),
                1 => client.send("GET", &named, ""),
                _ => {
                    client.carry(&user);
                    client.send("GET", &format!("{CLIENT}/current-api-session/service-updates"), "")
                }
            };
            client.carry(&bench.token);
        });
        over.store(true, Relaxed);
        part(&mut latencies, 0.99)
    })
}
