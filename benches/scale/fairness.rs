//! The latency of cheap requests beside expensive ones.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    Bench, calm,
    client::Client,
    corpus::identity,
    load::{paced_for, part, timed},
    server::{CLIENT, MANAGEMENT, parsed},
    sheet::{
        Figure,
        Value::{Microseconds, Times},
    },
};

/// The duration of a round, and the number of cheap requests per second.
const TIME: Duration = Duration::from_secs(1);
const EACH_SECOND: f64 = 300.0;

/// The expensive work: its name, the number of clients, and what each client does.
type Expensive<'e> = (
    &'static str,
    usize,
    Box<dyn Fn(&mut Client, usize) + Sync + 'e>,
);

pub fn measure(bench: &mut Bench) {
    let (_, user) = bench.server.login(&identity(0));
    let policy = format!("{MANAGEMENT}/service-policies/{}", bench.corpus.policy);
    let database = |what: &str| format!("{MANAGEMENT}/database/{what}");
    let deletion = format!(
        "{MANAGEMENT}/identities/{}?preview=true",
        bench.corpus.everywhere
    );
    let nothing: Expensive<'_> = ("nothing", 0, Box::new(|_, _| ()));
    let previews: Expensive<'_> = (
        "previews of deleting the identity that is in every policy, again and again",
        1,
        Box::new(|client, _| {
            client.send("DELETE", &deletion, "");
        }),
    );
    let expensive: [Expensive<'_>; 5] = [
        (
            "a filter over all identities, 4 at a time",
            4,
            Box::new(|client, _| {
                client.ask(
                    "GET",
                    &format!("{MANAGEMENT}/identities?filter=not%20isAdmin%20%3D%20false"),
                    "",
                );
            }),
        ),
        (
            "a policy over everybody changes, again and again",
            1,
            Box::new(|client, n| {
                client.send(
                    "PATCH",
                    &policy,
                    &json!({ "type": if n % 2 == 0 { "Bind" } else { "Dial" } }).to_string(),
                );
            }),
        ),
        (
            "an integrity check",
            1,
            Box::new(|client, _| {
                client.ask("POST", &database("check-data-integrity"), "");
                while parsed(client.send("GET", &database("data-integrity-results"), ""))["data"]["inProgress"]
                    == true
                {
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
                let body =
                    json!({ "username": identity(n), "password": "wrong password" }).to_string();
                client.ask(
                    "POST",
                    &format!("{CLIENT}/authenticate?method=password"),
                    &body,
                );
            }),
        ),
    ];
    bench.server.settle();
    let late = calm::median(|| part(&mut paced_for(TIME, EACH_SECOND, |_| ()), 0.99));
    let alone = calm::median(|| cheap(bench, &user, &nothing));
    let figure = Figure::new(
        "cheap requests, nothing else going on, p99",
        Microseconds(alone),
    );
    bench.sheet.add(figure.floor(
        "a thread that wakes as often, and does nothing",
        Microseconds(late),
    ));
    for other in expensive.iter().chain([&previews]) {
        let rounds = calm::rounds(|| [cheap(bench, &user, &nothing), cheap(bench, &user, other)]);
        add(
            bench,
            &format!("meanwhile {}: p99 : quiet", other.0),
            &rounds,
        );
    }
    let rounds = calm::rounds(|| [writes(bench, &nothing), writes(bench, &previews)]);
    add(
        bench,
        "meanwhile such previews: p99 of another's small write : quiet",
        &rounds,
    );
    Client::new(bench.server.at, &bench.token).send(
        "PATCH",
        &policy,
        &json!({ "type": "Dial" }).to_string(),
    );
}

/// Adds the ratio to the quiet latency, over rounds that each measured both.
fn add(bench: &mut Bench, name: &str, rounds: &[[f64; 2]]) {
    let middle =
        |of: fn(&[f64; 2]) -> f64| part(&mut rounds.iter().map(of).collect::<Vec<_>>(), 0.5);
    let figure = Figure::new(name, Times(middle(|[quiet, beside]| beside / quiet)));
    bench.sheet.add(
        figure
            .floor("quiet", Microseconds(middle(|[quiet, _]| *quiet)))
            .at_most(Times(3.0)),
    );
}

/// The p99 of a small write of one client while other clients do something else.
fn writes(bench: &Bench, other: &Expensive<'_>) -> f64 {
    let path = format!("{MANAGEMENT}/services/{}", bench.corpus.services[0]);
    beside(bench, other, |client| {
        let start = Instant::now();
        let write =
            |n| timed(|| _ = client.send("PATCH", &path, &format!(r#"{{"tags":{{"n":{n}}}}}"#)));
        (0..)
            .take_while(|_| start.elapsed() < TIME)
            .map(write)
            .collect()
    })
}

/// The p99 of a detail, a poll and a look-up by name in turn, while other clients do something
/// else.
fn cheap(bench: &Bench, user: &str, other: &Expensive<'_>) -> f64 {
    let detail = format!("{MANAGEMENT}/identities/{}", bench.corpus.everywhere);
    let named = format!(
        "{MANAGEMENT}/identities?filter=name%3D%22{}%22",
        identity(bench.corpus.size.identities / 2)
    );
    let work = |client: &mut Client, n: usize| {
        match n % 3 {
            0 => client.send("GET", &detail, ""),
            1 => client.send("GET", &named, ""),
            _ => {
                client.carry(user);
                client.send(
                    "GET",
                    &format!("{CLIENT}/current-api-session/service-updates"),
                    "",
                )
            }
        };
        client.carry(&bench.token);
    };
    beside(bench, other, |client| {
        paced_for(TIME, EACH_SECOND, |n| work(client, n))
    })
}

/// The p99 of the latencies of one client while other clients do something else.
fn beside(
    bench: &Bench,
    (_, clients, work): &Expensive<'_>,
    waits: impl FnOnce(&mut Client) -> Vec<f64>,
) -> f64 {
    let over = AtomicBool::new(false);
    let waited = thread::scope(|scope| {
        for mut client in bench.server.clients(&bench.token, *clients) {
            let over = &over;
            scope.spawn(move || {
                (0..)
                    .take_while(|_| !over.load(Relaxed))
                    .for_each(|n| work(&mut client, n))
            });
        }
        thread::sleep(Duration::from_millis(100));
        let mut client = Client::new(bench.server.at, &bench.token);
        let mut latencies = waits(&mut client);
        over.store(true, Relaxed);
        part(&mut latencies, 0.99)
    });
    // Work that the round started must end with it.
    bench.server.settle();
    waited
}
