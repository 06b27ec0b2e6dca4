//! Polls, details, lists.

use std::hint::black_box;

use overkeep::{
    clock::Timestamp,
    entity::{Id, Identity, Record},
    store::{decode, encode},
};
use serde_json::json;

use super::{
    Bench, calm,
    client::Client,
    corpus::identity,
    floors::CONNECTIONS,
    load::{Rate, paced, rate, timed},
    server::{CLIENT, MANAGEMENT, parsed},
    sheet::{
        Figure,
        Value::{Count, Microseconds},
    },
};

pub fn measure(bench: &mut Bench<'_>) {
    poll(bench);
    page(bench);
    details(bench);
    lists(bench);
}

fn poll(bench: &mut Bench<'_>) {
    let (_, token) = bench.server.login(&identity(0));
    let polled = rate(bench.server, &mut bench.clients(&token, CONNECTIONS), |client, _| {
        client.send("GET", &format!("{CLIENT}/current-api-session/service-updates"), "");
    });
    let constant = bench.floors.constant.cpu;
    let figure = Figure::new("service-updates poll, CPU", Microseconds(polled.cpu)).floor("a constant", Microseconds(constant));
    let figure = figure.goal("a constant is 30 % of it", constant >= 0.3 * polled.cpu).flat();
    bench.sheet.add(figure.latency("service-updates poll", polled.median));
}

fn page(bench: &mut Bench<'_>) {
    let (mut client, token) = bench.server.login(&identity(0));
    let answer = client.send("GET", &format!("{CLIENT}/services?limit=500"), "");
    let (bytes, page) = (answer.len(), parsed(answer));
    let shown = page["data"].as_array().map_or(0, Vec::len);
    let total = page["meta"]["pagination"]["totalCount"].as_u64().unwrap_or_default() as usize;
    let next = |client: &mut Client, n: usize| {
        let offset = n % total.div_ceil(500) * 500;
        client.send("GET", &format!("{CLIENT}/services?limit=500&offset={offset}"), "");
    };
    let listed = rate(bench.server, &mut bench.clients(&token, 1), next);
    let figure = Figure::new("client's list of services, page of 500, CPU", Microseconds(listed.cpu));
    // Not compared: the answer is larger in a larger model, up to a page.
    bench.sheet.add(figure.floor("a constant", Microseconds(bench.floors.constant.cpu)).at_most(Microseconds(600.0)));
    let many = &mut bench.clients(&token, CONNECTIONS);
    let most = rate(bench.server, many, next).each_second;
    let half = paced(bench.server, many, most / 2.0, next);
    bench.sheet.add(Figure::new("the same, p99 at half load", Microseconds(half.p99)).at_most(Microseconds(5_000.0)));
    bench.sheet.add(Figure::new("the same, services visible", Count(total as f64)));
    bench.sheet.add(Figure::new("the same, bytes of a service in it", Count((bytes / shown) as f64)));
}

fn details(bench: &mut Bench<'_>) {
    let path = format!("{MANAGEMENT}/identities/{}", bench.corpus.everywhere);
    let read = rate(bench.server, &mut bench.clients(&bench.token, CONNECTIONS), |client, _| _ = client.send("GET", &path, ""));
    let figure = beside_constant(bench, "detail of an identity by id", &read);
    bench.sheet.add(figure.at_most(Microseconds(50.0)));
}

fn lists(bench: &mut Bench<'_>) {
    let many = bench.corpus.size.identities;
    let listed = |bench: &Bench<'_>, clients: usize, query: &str| {
        let path = format!("{MANAGEMENT}/identities?{query}");
        rate(bench.server, &mut bench.clients(&bench.token, clients), |client, _| _ = client.send("GET", &path, ""))
    };
    let named = listed(bench, CONNECTIONS, &format!("filter=name%3D%22{}%22", identity(many / 2)));
    let figure = beside_constant(bench, "identities, name = \"x\"", &named);
    bench.sheet.add(figure.at_most(Microseconds(60.0)));
    let page = listed(bench, 2, "limit=100");
    let figure = beside_constant(bench, "identities, page of 100", &page);
    bench.sheet.add(figure);
    let sorted = listed(bench, 2, "sort=name&limit=100");
    let figure = beside_constant(bench, "identities, sorted by name, page of 100", &sorted);
    bench.sheet.add(figure.at_most(Microseconds(500.0)));
    let pages = many / 100;
    let any = rate(bench.server, &mut bench.clients(&bench.token, 2), |client, n| {
        // A step that has no factor in common with the number of pages: each comes in its turn, neighbours far apart.
        let offset = n * 37 % pages * 100;
        client.send("GET", &format!("{MANAGEMENT}/identities?sort=name&limit=100&offset={offset}"), "");
    });
    let figure = Figure::new("the same, any page, CPU", Microseconds(any.cpu));
    bench.sheet.add(figure.floor("a constant", Microseconds(bench.floors.constant.cpu)).flat());
    let scanned = listed(bench, 1, "filter=name%20contains%20%22999%22");
    let each = scanned.cpu / many as f64;
    let figure = Figure::new("identities, name contains \"x\", CPU per record", Microseconds(each));
    let figure = figure.floor("decoding a record", Microseconds(decoding())).at_most(Microseconds(1.0));
    bench.sheet.add(figure.latency("identities, name contains \"x\"", scanned.median));
}

fn beside_constant(bench: &Bench<'_>, name: &str, rate: &Rate) -> Figure {
    let figure = Figure::new(format!("{name}, CPU"), Microseconds(rate.cpu));
    figure.floor("a constant", Microseconds(bench.floors.constant.cpu)).flat().latency(name, rate.median)
}

/// Microseconds to make a record of its bytes.
fn decoding() -> f64 {
    const TIMES: usize = 20_000;
    let mut spec = Identity::named(identity(4711));
    spec.role_attributes = serde_json::from_value(json!(["role0", "role3", "role5"])).expect("attributes");
    let record = Record::<Identity>::new(Id::from_text("Vbeaaaaaaaaa"), Timestamp::from_millis(0), spec);
    let bytes = encode(&record).expect("bytes");
    let round = || timed(|| (0..TIMES).for_each(|_| drop(black_box(decode::<Identity>("Vbeaaaaaaaaa", &bytes))))) / TIMES as f64;
    calm::median(round)
}
