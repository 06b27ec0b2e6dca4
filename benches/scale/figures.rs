//! The operations that matter: their CPU time as a multiple of that of `GET /version` in the same
//! run, compared with the recorded multiples.

use std::path::Path;

use super::{
    Bench, floors::version, load::Load, logins, reads, recorded, server::OVERKEEP, sessions, writes,
};

/// A figure is the median of so many rounds.
const ROUNDS: usize = 3;

type Operation = (&'static str, fn(&Bench) -> Load<'_>);

/// Each operation by its name in the file. Those that add records come last.
const OPERATIONS: [Operation; 14] = [
    ("service-updates", reads::polls),
    ("client-services-10", |bench| reads::services(bench, 10)),
    ("client-services-500", |bench| reads::services(bench, 500)),
    ("identity-by-id", reads::details),
    ("identities-by-name", reads::names),
    ("identities-100", reads::page_of_100),
    ("identities-100-sorted-by-name", reads::sorted_page_of_100),
    ("explain", explanations),
    ("small-mutation-1-at-a-time", |bench| {
        writes::patches(bench, 1)
    }),
    ("small-mutation-16-at-a-time", |bench| {
        writes::patches(bench, 16)
    }),
    ("new-session", sessions::sessions),
    ("new-session-with-signed-token", sessions::signed_sessions),
    ("log-in-with-certificate", logins::log_ins),
    ("new-identity-with-token", |bench| {
        writes::created(&bench.server)
    }),
];

/// Measures every operation, prints its multiple beside the recorded one, and returns whether all
/// are as recorded.
pub fn are_as_recorded(bench: &Bench) -> bool {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/scale/recorded.toml");
    let recorded = recorded::read(&std::fs::read_to_string(file).expect("the recorded figures"))
        .expect("the recorded figures");
    println!(
        "{:<32}{:>12}{:>12}{:>12}{:>12}",
        "", "CPU, us", "measured", "recorded", "ratio"
    );
    let measure = |(name, operation): Operation| {
        let pair = operation(bench).some_beside(ROUNDS, version(bench));
        let known = recorded.get(name).copied().unwrap_or(f64::NAN);
        println!(
            "{name:<32}{:>12.1}{:>12.2}{known:>12.2}{:>12.2}",
            pair.rate.cpu,
            pair.times,
            pair.times / known
        );
        (name, pair.times)
    };
    let measured = OPERATIONS.map(measure);
    let faults = recorded::faults(&recorded, &measured);
    faults.iter().for_each(|fault| println!("{fault}"));
    faults.is_empty()
}

/// Why the identity in every policy may dial a service.
fn explanations(bench: &Bench) -> Load<'_> {
    let (identity, service) = (&bench.corpus.everywhere, &bench.corpus.services[0]);
    reads::got(
        bench,
        &bench.token,
        2,
        format!("{OVERKEEP}/explain?identity={identity}&service={service}&type=Dial"),
    )
}
