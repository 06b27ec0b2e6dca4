//! The cost of a controller with many records compared to one with few. The controller runs as a
//! child process on a data file of a given size; real TLS connections from here drive it.
//!
//! `cargo bench --bench scale -- figures` compares the operations that matter with what is recorded
//! in `recorded.toml`.
//!
//! `cargo bench --bench scale` runs the models S, M and L, prints a table and draws `latency.svg`;
//! it takes an hour, or two on a busy machine. With `OVERKEEP_WRITE_DOCS=1` it also writes the
//! table into `docs/performance.md`. `OVERKEEP_BENCH_SIZES` names other models, such as `S,L` or,
//! with a million identities, `S,M,L,XL`; `OVERKEEP_BENCH_STEPS` some of the steps, such as
//! `page,posture`; `OVERKEEP_BENCH_DIR` a directory on the disk to measure.
//!
//! Client and server share the cores of the machine, so that most figures are the CPU time of the
//! server process. Each time is the median of the five calmest of up to ten rounds (building the
//! model is one round, the end of very many sessions any five). Compared values are measured close
//! together: each step on all models one after the other, and CPU times mostly in alternation with
//! their floors. A step that was not calm is repeated at the end, and its figures count if it was
//! calmer; the table is printed before and after that.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)] // a bench that panics says so

mod calm;
mod client;
mod corpus;
#[path = "../common/dice.rs"]
mod dice;
mod fairness;
mod figures;
mod floors;
mod load;
mod logins;
mod plot;
#[path = "../common/process.rs"]
mod process;
mod reads;
#[path = "../common/recorded.rs"]
mod recorded;
mod server;
mod sessions;
mod sheet;
#[path = "../common/spent.rs"]
mod spent;
#[path = "../common/stores.rs"]
mod stores;
#[path = "../common/tls.rs"]
mod tls;
mod whole;
mod writes;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use corpus::{Asking, Corpus, Size};
use server::Server;
use sheet::Sheet;
use tempfile::TempDir;

/// A step is repeated at the end if the fixed work took longer in it than this, relative to its
/// best in the run.
const RESTLESS: f64 = 1.3;

type Step = fn(&mut Bench);

/// The steps in order, unless `OVERKEEP_BENCH_STEPS` names some of them.
const STEPS: [(&str, Step); 19] = [
    ("poll", reads::poll),
    ("page", reads::page),
    ("detail", reads::detail),
    ("name", reads::named),
    ("pages", reads::pages),
    ("any-page", reads::any_page),
    ("scan", reads::scan),
    ("memory-after-reads", whole::memory_after_reads),
    ("mutations", writes::mutations),
    ("identities", writes::identities),
    ("certificates", writes::certificates),
    ("policy", writes::policy),
    ("deletion", writes::deletion),
    ("sessions", sessions::asked_for_nothing),
    ("posture", sessions::asked_for_checks),
    ("logins", logins::certificate),
    ("end", logins::end),
    ("fairness", fairness::measure),
    ("memory", whole::memory_at_the_end),
];

/// The steps left out for the drawing: it does not show them, or they take long with a million
/// identities.
const UNDRAWN: [&str; 9] = [
    "page",
    "any-page",
    "memory-after-reads",
    "identities",
    "certificates",
    "posture",
    "end",
    "fairness",
    "memory",
];

/// A controller on a model, and the sheet for its figures.
pub struct Bench {
    pub server: Server,
    /// A controller on a new file.
    pub empty: Server,
    pub corpus: Corpus,
    pub sheet: Sheet,
    /// The session token of the administrator.
    pub token: String,
    /// The directory of the files of both controllers and of further ones.
    directory: TempDir,
}

impl Bench {
    /// Controllers on a model; `measure` gets the file before they are started.
    fn open(home: &Path, size: Size, measure: impl FnOnce(&Corpus, &mut Sheet)) -> Self {
        let directory = TempDir::new_in(home).expect("a directory");
        let corpus = corpus::build(directory.path(), size, Asking::Nobody);
        let mut sheet = Sheet {
            name: size.name,
            identities: size.identities,
            figures: Vec::new(),
        };
        measure(&corpus, &mut sheet);
        let none = corpus::build(&directory.path().join("none"), corpus::NONE, Asking::Nobody);
        let (server, empty) = (Server::start(&corpus.file), Server::start(&none.file));
        let (_, token) = server.login("admin");
        Self {
            server,
            empty,
            corpus,
            sheet,
            token,
            directory,
        }
    }

    /// A further model with its own controller, which must be dropped before its directory.
    pub fn fresh(&self, size: Size, asking: Asking) -> (TempDir, Corpus, Server) {
        let directory = TempDir::new_in(self.directory.path()).expect("a directory");
        let corpus = corpus::build(directory.path(), size, asking);
        let server = Server::start(&corpus.file);
        (directory, corpus, server)
    }

    /// Runs a step unless it was calm in an earlier run; the figures of the calmer run count.
    /// `took` is the time of the fixed work.
    fn take(&mut self, step: Step, took: &mut f64) {
        if calm::times(*took) <= RESTLESS {
            return;
        }
        let before = self.sheet.figures.clone();
        // Discards earlier times of the fixed work.
        calm::lately();
        step(self);
        let now = calm::lately().unwrap_or_default();
        if now < *took {
            *took = now;
        } else {
            eprintln!("{:>3}  it was calmer before", self.sheet.name);
            self.sheet.figures = before;
        }
    }
}

fn main() -> ExitCode {
    let home =
        std::env::var("OVERKEEP_BENCH_DIR").map_or_else(|_| std::env::temp_dir(), PathBuf::from);
    if std::env::args().any(|word| word == "figures") {
        return if figures::are_as_recorded(&Bench::open(&home, corpus::M, |_, _| ())) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    table(&home);
    ExitCode::SUCCESS
}

/// Measures the steps of the models and prints the table.
fn table(home: &Path) {
    let start = Instant::now();
    let named = std::env::var("OVERKEEP_BENCH_SIZES").unwrap_or_else(|_| "S,M,L".into());
    let size = |name: &str| {
        [corpus::S, corpus::M, corpus::L, corpus::XL]
            .into_iter()
            .find(|size| size.name == name)
            .expect("S, M, L or XL")
    };
    let wanted = std::env::var("OVERKEEP_BENCH_STEPS")
        .unwrap_or_else(|_| STEPS.map(|(name, _)| name).join(","));
    let wanted: Vec<&str> = wanted.split(',').collect();
    let step = |wanted: &&str| {
        STEPS
            .into_iter()
            .find(|(name, _)| name == wanted)
            .expect("the name of a step")
            .1
    };
    let steps: Vec<Step> = wanted.iter().map(step).collect();
    let writes = std::env::var_os("OVERKEEP_WRITE_DOCS").is_some();
    assert!(
        !writes || (named == "S,M,L" && wanted.len() == STEPS.len()),
        "the document shows all steps of S, M and L"
    );
    let draws = STEPS
        .iter()
        .all(|(name, _)| wanted.contains(name) || UNDRAWN.contains(name));
    let mut benches: Vec<Bench> = named
        .split(',')
        .map(|name| Bench::open(home, size(name), whole::before))
        .collect();
    let mut took = vec![vec![f64::INFINITY; steps.len()]; benches.len()];
    for _ in 0..2 {
        for (n, step) in steps.iter().enumerate() {
            for (bench, took) in benches.iter_mut().zip(&mut took) {
                bench.take(*step, &mut took[n]);
            }
        }
        let sheets: Vec<Sheet> = benches.iter().map(|bench| bench.sheet.clone()).collect();
        let told = told(&sheets, took.iter().flatten(), start);
        println!("{told}");
        if writes {
            write(&told);
        }
        if sheets.len() > 1 && draws {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/scale/latency.svg");
            std::fs::write(file, plot::svg(&sheets)).expect("a drawing");
        }
    }
}

/// When and how this was measured, and the table.
fn told<'t>(sheets: &[Sheet], took: impl Iterator<Item = &'t f64>, start: Instant) -> String {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .env("LC_ALL", "C")
            .output()
            .expect(program);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    // Some steps have no rounds.
    let mut times: Vec<f64> = took
        .filter(|took| **took > 0.0)
        .map(|took| calm::times(*took))
        .collect();
    let [half, most] = [0.5, 1.0].map(|at| load::part(&mut times, at));
    let (date, commit) = (
        said("date", &["-u", "+%-d %B %Y"]),
        said("git", &["rev-parse", "--short=8", "HEAD"]),
    );
    let minutes = start.elapsed().as_secs() / 60;
    // BBR paces connections on the loopback device too, which delays answers of more than 256 kB by
    // tens of milliseconds.
    let congestion =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    format!(
        "Measured on {date}, commit {commit}, in one run of {minutes} minutes. While a step was measured the same work took {half:.2} times what it takes at its\n\
         best, in the most restless one {most:.2} times. The congestion control of TCP was {}.\n\n{}",
        congestion.trim(),
        sheet::table(sheets)
    )
}

/// Puts the table into the document, in the place of that of an earlier run.
fn write(told: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/performance.md");
    let page = std::fs::read_to_string(&file).expect("the document");
    let start = page.find("\nMeasured ").expect("an earlier run") + 1;
    let table = start + page[start..].find("\n|").expect("an earlier table");
    let end = table + page[table..].find("\n\n").expect("the end of the table") + 1;
    std::fs::write(file, format!("{}{told}{}", &page[..start], &page[end..]))
        .expect("the document");
}
