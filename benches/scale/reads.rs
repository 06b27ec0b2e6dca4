//! Polls, details, lists.

use std::hint::black_box;

use model::{
    clock::Timestamp,
    entity::{Id, Identity, Record},
};
use serde_json::json;
use store::{decode, encode};

use super::{
    Bench, calm,
    client::Client,
    corpus::identity,
    floors::{CONNECTIONS, constant, health, version},
    load::{Load, Pair, paced, steady, timed},
    server::{CLIENT, MANAGEMENT, parsed},
    sheet::{
        Figure,
        Value::{Count, Microseconds},
    },
};

/// A constant document, half as long as a page of 500 services.
const DOCUMENT: &str = "/edge/client/v1/openapi.json";

pub fn poll(bench: &mut Bench) {
    let constant_answer = flat(bench, "GET /version", version(bench));
    bench.sheet.add(constant_answer);
    let polled = polls(bench).beside(constant(bench));
    let figure = beside_constant("service-updates poll", &polled).flat();
    bench
        .sheet
        .add(figure.goal("a constant is 30 % of it", 0.3 * polled.times <= 1.0));
}

pub fn polls(bench: &Bench) -> Load<'_> {
    let (_, token) = bench.server.login(&identity(0));
    got(
        bench,
        &token,
        CONNECTIONS,
        format!("{CLIENT}/current-api-session/service-updates"),
    )
}

/// The first services that the identity in every policy may use.
pub fn services(bench: &Bench, limit: usize) -> Load<'_> {
    let (_, token) = bench.server.login(&identity(0));
    got(
        bench,
        &token,
        CONNECTIONS,
        format!("{CLIENT}/services?limit={limit}"),
    )
}

pub fn page(bench: &mut Bench) {
    let (mut client, token) = bench.server.login(&identity(0));
    let answer = client.send("GET", &format!("{CLIENT}/services?limit=500"), "");
    let (bytes, page) = (answer.len(), parsed(answer));
    let shown = page["data"].as_array().map_or(0, Vec::len);
    let total = page["meta"]["pagination"]["totalCount"]
        .as_u64()
        .unwrap_or_default() as usize;
    let next = |client: &mut Client, n: usize| {
        let offset = n % total.div_ceil(500) * 500;
        client.send(
            "GET",
            &format!("{CLIENT}/services?limit=500&offset={offset}"),
            "",
        );
    };
    let document = client.send("GET", DOCUMENT, "").len();
    let floor = steady(&bench.server, bench.server.clients("", 1), |client, _| {
        _ = client.send("GET", DOCUMENT, "")
    });
    let Pair { rate, floor, times } =
        steady(&bench.server, bench.server.clients(&token, 1), next).beside(floor);
    let few = beside_constant(
        "client's list of services, page of 10",
        &services(bench, 10).beside(constant(bench)),
    )
    .flat();
    bench.sheet.add(few);
    // Not compared between models, because the answer grows with the model, up to a page.
    let name = "client's list of services, page of 500";
    let figure = Figure::new(format!("{name}, CPU"), Microseconds(rate.cpu))
        .at_most(Microseconds(600.0))
        .latency(name, rate.median);
    bench.sheet.add(figure.beside(
        &format!("a document of {} kB", document / 1000),
        Microseconds(floor.cpu),
        times,
    ));
    let many = || bench.server.clients(&token, CONNECTIONS);
    let most = steady(&bench.server, many(), next).measure().each_second;
    let pace = most / 2.0;
    let floor = paced(&bench.server, many(), pace, |client, _| health(client));
    let half = paced(&bench.server, many(), pace, next).beside(floor);
    let figure = Figure::new("the same, p99 at half load", Microseconds(half.rate.p99))
        .at_most(Microseconds(5_000.0));
    bench
        .sheet
        .add(figure.floor("a constant at this pace", Microseconds(half.floor.p99)));
    bench.sheet.add(Figure::new(
        "the same, services visible",
        Count(total as f64),
    ));
    bench.sheet.add(Figure::new(
        "the same, bytes of a service in it",
        Count((bytes / shown) as f64),
    ));
}

pub fn detail(bench: &mut Bench) {
    let read = details(bench).beside(constant(bench));
    let figure = beside_constant("detail of an identity by id", &read).flat();
    bench.sheet.add(figure.at_most(Microseconds(50.0)));
}

pub fn details(bench: &Bench) -> Load<'_> {
    got(
        bench,
        &bench.token,
        CONNECTIONS,
        format!("{MANAGEMENT}/identities/{}", bench.corpus.everywhere),
    )
}

pub fn named(bench: &mut Bench) {
    let figure = flat(bench, "identities, name = \"x\"", names(bench));
    bench.sheet.add(figure.at_most(Microseconds(60.0)));
}

pub fn names(bench: &Bench) -> Load<'_> {
    let filter = format!(
        "filter=name%3D%22{}%22",
        identity(bench.corpus.size.identities / 2)
    );
    listed(bench, CONNECTIONS, &filter)
}

pub fn pages(bench: &mut Bench) {
    let figure = flat(bench, "identities, page of 100", page_of_100(bench));
    bench.sheet.add(figure);
    let figure = flat(
        bench,
        "identities, sorted by name, page of 100",
        sorted_page_of_100(bench),
    );
    bench.sheet.add(figure.at_most(Microseconds(500.0)));
}

pub fn page_of_100(bench: &Bench) -> Load<'_> {
    listed(bench, 2, "limit=100")
}

pub fn sorted_page_of_100(bench: &Bench) -> Load<'_> {
    listed(bench, 2, "sort=name&limit=100")
}

pub fn any_page(bench: &mut Bench) {
    let pages = bench.corpus.size.identities / 100;
    let next = |client: &mut Client, n| {
        // The step has no common factor with the number of pages, so that each page comes in its
        // turn and neighbours are far apart.
        let offset = n * 37 % pages * 100;
        client.send(
            "GET",
            &format!("{MANAGEMENT}/identities?sort=name&limit=100&offset={offset}"),
            "",
        );
    };
    let any =
        steady(&bench.server, bench.server.clients(&bench.token, 2), next).beside(constant(bench));
    let figure = beside_constant("identities, sorted by name, any page", &any).flat();
    bench.sheet.add(figure);
}

pub fn scan(bench: &mut Bench) {
    let path = format!("{MANAGEMENT}/identities?filter=name%20contains%20%22999%22");
    let scanned = got(bench, &bench.token, 1, path).measure();
    // The administrator is an identity too.
    let each = scanned.cpu / (bench.corpus.size.identities + 1) as f64;
    let figure = Figure::new(
        "identities, name contains \"x\", CPU per record",
        Microseconds(each),
    );
    let figure = figure
        .floor("decoding a record", Microseconds(decoding()))
        .at_most(Microseconds(1.0));
    bench
        .sheet
        .add(figure.latency("identities, name contains \"x\"", scanned.median));
}

fn flat(bench: &Bench, name: &str, asked: Load<'_>) -> Figure {
    beside_constant(name, &asked.beside(constant(bench))).flat()
}

/// A list of identities with a query, requested by so many clients.
fn listed<'b>(bench: &'b Bench, clients: usize, query: &str) -> Load<'b> {
    got(
        bench,
        &bench.token,
        clients,
        format!("{MANAGEMENT}/identities?{query}"),
    )
}

pub fn got<'b>(bench: &'b Bench, token: &str, clients: usize, path: String) -> Load<'b> {
    steady(
        &bench.server,
        bench.server.clients(token, clients),
        move |client, _| _ = client.send("GET", &path, ""),
    )
}

fn beside_constant(name: &str, Pair { rate, floor, times }: &Pair) -> Figure {
    let figure =
        Figure::new(format!("{name}, CPU"), Microseconds(rate.cpu)).latency(name, rate.median);
    figure.beside("a constant", Microseconds(floor.cpu), *times)
}

/// The time to decode a record, in microseconds.
fn decoding() -> f64 {
    const TIMES: usize = 20_000;
    let mut spec = Identity::named(identity(4711));
    spec.role_attributes =
        serde_json::from_value(json!(["role0", "role3", "role5"])).expect("attributes");
    let record = Record::<Identity>::new(
        Id::from_text("Vbeaaaaaaaaa"),
        Timestamp::from_millis(0),
        spec,
    );
    let bytes = encode(&record).expect("bytes");
    let round = || {
        timed(|| {
            (0..TIMES).for_each(|_| drop(black_box(decode::<Identity>("Vbeaaaaaaaaa", &bytes))))
        }) / TIMES as f64
    };
    calm::median(round)
}
