//! The cost of `overkeep forward` and `overkeep host`, beside floors of the same run: copying
//! between two sockets, the cipher between both ends, and TLS.
//!
//! `cargo bench --bench client`, or some parts by name: `-- bulk start connections idle`.
//! Controller, `forward` and `host` are child processes, so that their CPU time and memory are their
//! own; the server and its clients run in this process and share the cores with them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)] // a bench that panics says so

mod floors;
mod parts;
#[path = "../common/process.rs"]
mod process;
#[path = "../common/spent.rs"]
mod spent;
mod stage;
#[path = "../common/tls.rs"]
mod tls;

use stage::Stage;

/// A part of the bench, by name.
type Part = (&'static str, fn(&Stage));

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, target] = words.as_slice()
        && word == floors::COPY
    {
        return floors::copy(target);
    }
    let directory = tempfile::TempDir::new().expect("a directory");
    let stage = Stage::new(directory.path());
    let parts: [Part; 4] = [
        ("bulk", parts::bulk),
        ("start", parts::start),
        ("connections", parts::connections),
        ("idle", parts::idle),
    ];
    let asked: Vec<&String> = words
        .iter()
        .filter(|word| !word.starts_with("--"))
        .collect();
    println!(
        "{:<52}{:>12}{:>12}{:>9}   goal",
        "", "floor", "measured", "ratio"
    );
    for (name, part) in parts {
        if asked.is_empty() || asked.iter().any(|word| *word == name) {
            part(&stage);
        }
    }
}

/// The goal for a figure as text, and whether it is met.
type Goal = (&'static str, bool);

fn row(what: &str, floor: f64, measured: f64, goal: Option<Goal>) {
    let goal = goal.map_or(String::new(), |(goal, met)| {
        format!("{goal}: {}", if met { "met" } else { "missed" })
    });
    println!(
        "{what:<52}{floor:>12.3}{measured:>12.3}{:>9.2}   {goal}",
        measured / floor
    );
}
