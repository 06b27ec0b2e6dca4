//! What a controller costs that has many records, against one that has few: the program itself as a child process on a data file of
//! a given size, driven over TLS by real connections from here.
//!
//! `cargo bench --bench scale` goes through the models S, M and L, prints a table and draws `latency.svg`; it takes some minutes.
//! `OVERKEEP_BENCH_SIZES` names other models, such as `S,L` or, with a million identities, `S,M,L,XL`; `OVERKEEP_BENCH_DIR` a directory on
//! the disk to measure. Client and server share the cores of the machine, so that most figures are the CPU time of the server, which is
//! from its own accounts. Each figure of time is the median of five rounds, the calmest of up to ten (the building of the model is
//! one, and the end of very many sessions any five), and its floor is from the same run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)] // a bench that panics says so

mod calm;
mod client;
mod corpus;
#[path = "../common/dice.rs"]
mod dice;
mod fairness;
mod floors;
mod load;
mod logins;
mod plot;
#[path = "../common/process.rs"]
mod process;
mod reads;
mod server;
mod sessions;
mod sheet;
#[path = "../common/tls.rs"]
mod tls;
mod whole;
mod writes;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use client::Client;
use corpus::{Asking, Corpus, Size};
use floors::Floors;
use server::Server;
use sheet::Sheet;
use tempfile::TempDir;

/// A controller on a model, and the sheet that its figures go on.
pub struct Bench<'b> {
    pub corpus: &'b Corpus,
    pub server: &'b Server,
    /// A controller on a new file.
    pub empty: &'b Server,
    pub floors: Floors,
    pub sheet: Sheet,
    /// Of the administrator.
    pub token: String,
}

impl Bench<'_> {
    /// Connections with a session.
    pub fn clients(&self, token: &str, count: usize) -> Vec<Client> {
        (0..count).map(|_| Client::new(self.server.at, token)).collect()
    }
}

fn main() {
    let home = std::env::var("OVERKEEP_BENCH_DIR").map_or_else(|_| std::env::temp_dir(), PathBuf::from);
    let named = std::env::var("OVERKEEP_BENCH_SIZES").unwrap_or_else(|_| "S,M,L".into());
    let size =
        |name: &str| [corpus::S, corpus::M, corpus::L, corpus::XL].into_iter().find(|size| size.name == name).expect("S, M, L or XL");
    let sheets: Vec<Sheet> = named.split(',').map(|name| measured(&home, size(name))).collect();
    sheet::print(&sheets);
    if sheets.len() > 1 {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/scale/latency.svg");
        std::fs::write(file, plot::svg(&sheets)).expect("a drawing");
    }
}

fn measured(home: &Path, size: Size) -> Sheet {
    let (directory, beside) = (TempDir::new_in(home).expect("a directory"), TempDir::new_in(home).expect("a directory"));
    let none = corpus::build(beside.path(), corpus::NONE, Asking::Nobody);
    let corpus = corpus::build(directory.path(), size, Asking::Nobody);
    let mut sheet = Sheet { name: size.name, identities: size.identities, figures: Vec::new() };
    whole::file(&corpus, &mut sheet);
    whole::start(&corpus, &mut sheet);
    let (server, empty) = (Server::start(&corpus.file), Server::start(&none.file));
    let (_, token) = server.login("admin");
    let floors = Floors::measure(&server, directory.path(), &corpus.credentials[0]);
    let mut bench = Bench { corpus: &corpus, server: &server, empty: &empty, floors, sheet, token };
    reads::measure(&mut bench);
    whole::memory(&mut bench, "all of these reads", Duration::from_secs(1));
    writes::measure(&mut bench);
    sessions::measure(&mut bench, home);
    logins::measure(&mut bench);
    fairness::measure(&mut bench);
    whole::memory(&mut bench, "everything in this table", Duration::from_secs(5));
    calm::say(&mut bench.sheet);
    bench.sheet
}
