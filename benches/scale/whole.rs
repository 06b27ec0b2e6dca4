//! The file, the start and the memory.

use std::{fs, hint::black_box, thread, time::Duration};

use super::{
    Bench, calm,
    client::Client,
    corpus::Corpus,
    load::timed,
    server::{CLIENT, Server},
    sheet::{Figure, Sheet, Value},
};

/// The figures of a file without a controller.
pub fn before(corpus: &Corpus, sheet: &mut Sheet) {
    file(corpus, sheet);
    start(corpus, sheet);
}

/// The time to build the file, and its size.
fn file(corpus: &Corpus, sheet: &mut Sheet) {
    const MINUTE: f64 = 60e6;
    let bytes = fs::metadata(&corpus.file).expect("a file").len() as f64;
    let (identities, records) = (corpus.size.identities as f64, corpus.record_bytes as f64);
    let (contents, copy) = (
        fs::read(&corpus.file).expect("a file"),
        corpus.file.with_extension("floor"),
    );
    let write = || {
        fs::write(&copy, &contents)
            .and_then(|()| fs::File::open(&copy)?.sync_all())
            .and_then(|()| fs::remove_file(&copy))
    };
    let written = timed(|| write().expect("a copy"));
    let built = Figure::new(
        "building the model",
        Value::Microseconds(corpus.seconds * 1e6),
    );
    sheet.add(
        built
            .floor("writing the file", Value::Microseconds(written))
            .at_most(Value::Microseconds(MINUTE)),
    );
    let whole =
        Figure::new("data file", Value::Bytes(bytes)).floor("records", Value::Bytes(records));
    sheet.add(whole.goal("2.5x the records", bytes <= 2.5 * records));
    let each = Figure::new("data file, per identity", Value::Bytes(bytes / identities));
    sheet.add(
        each.floor("records", Value::Bytes(records / identities))
            .at_most(Value::Bytes(2000.0)),
    );
}

/// The time from the start of the process to the first answered log-in.
fn start(corpus: &Corpus, sheet: &mut Sheet) {
    let goal = if corpus.size.identities > 100_000 {
        4e6
    } else {
        0.5e6
    };
    let start = calm::median(|| {
        let mut server = None;
        timed(|| {
            let started = Server::start(&corpus.file);
            Client::presenting(started.at, &corpus.credentials[0]).send(
                "POST",
                &format!("{CLIENT}/authenticate?method=cert"),
                "",
            );
            server = Some(started);
        })
    });
    let floor = calm::median(|| timed(|| drop(black_box(fs::read(&corpus.file).expect("a file")))));
    let figure = Figure::new(
        "start to the first answered login, warm",
        Value::Microseconds(start),
    );
    sheet.add(
        figure
            .floor("reading the file", Value::Microseconds(floor))
            .at_most(Value::Microseconds(goal)),
    );
}

pub fn memory_after_reads(bench: &mut Bench) {
    memory(bench, "all of these reads", Duration::from_secs(1));
}

pub fn memory_at_the_end(bench: &mut Bench) {
    memory(bench, "everything in this table", Duration::from_secs(5));
}

/// The resident memory after something, when the controller was idle for a while.
fn memory(bench: &mut Bench, after: &str, idle: Duration) {
    const MIB: f64 = 1_048_576.0;
    thread::sleep(idle);
    let (resident, empty) = (
        bench.server.resident() as f64,
        bench.empty.resident() as f64,
    );
    let goal = 250.0 + 50.0 * (bench.corpus.size.identities as f64 / 100_000.0 - 1.0).max(0.0);
    let figure = Figure::new(
        format!("resident memory, idle, after {after}"),
        Value::Bytes(resident),
    );
    bench.sheet.add(
        figure
            .floor("on an empty file", Value::Bytes(empty))
            .at_most(Value::Bytes(goal * MIB)),
    );
}
