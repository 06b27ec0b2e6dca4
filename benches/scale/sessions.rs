//! Sessions for dialing, without posture checks and with them.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    Bench,
    client::Client,
    corpus::{Asking, Corpus, DOMAIN, identity},
    floors::{constant, health},
    load::{Load, Pair, of_new, repeated, steady},
    server::{CLIENT, MANAGEMENT, Server, create, parsed, token},
    sheet::{
        Figure,
        Value::{Count, Microseconds},
    },
};

/// The number of sessions per API session: one per service, because opening a session again costs
/// almost nothing.
const EACH: usize = 20;
/// The goals for the CPU time of a session, in microseconds: with an opaque token, and with a
/// signed one.
const GOAL: f64 = 150.0;
const SIGNED_GOAL: f64 = 200.0;

/// A user with the services that it may dial.
type Dialer = (String, Vec<String>);

pub fn asked_for_nothing(bench: &mut Bench) {
    let all = dialers(&bench.server, &bench.corpus);
    let one = all[0].clone();
    let at_fifty = at_fifty(
        "POST /sessions, 50 clients",
        opened(&bench.server, all).beside(constant(bench)),
        GOAL,
    );
    let signed = self::at_fifty(
        "the same, with a signed token",
        signed_sessions(bench).beside(constant(bench)),
        SIGNED_GOAL,
    );
    let figures = [at_fifty, signed, alone(&bench.server, &one)];
    figures
        .into_iter()
        .for_each(|figure| bench.sheet.add(figure));
}

pub fn asked_for_checks(bench: &mut Bench) {
    for (asking, who) in [
        (Asking::OneInFour, "one policy in four"),
        (Asking::Everybody, "every policy"),
    ] {
        // On a controller of its own, because the service list gets longer as soon as there is a
        // check.
        let (_directory, corpus, server) = bench.fresh(bench.corpus.size, asking);
        let name = format!("POST /sessions, 50 clients, {who} asks for a check, which passes");
        let figure = at_fifty(
            &name,
            opened(&server, dialers(&server, &corpus)).beside(constant(bench)),
            GOAL,
        );
        bench.sheet.add(figure);
        if asking == Asking::OneInFour {
            list(bench, &server);
        }
    }
}

/// Opened by clients of fifty identities.
pub fn sessions(bench: &Bench) -> Load<'_> {
    opened(&bench.server, dialers(&bench.server, &bench.corpus))
}

/// Opened by clients of fifty other identities, which may use a router that needs signed tokens.
pub fn signed_sessions(bench: &Bench) -> Load<'_> {
    let (server, mut admin) = (&bench.server, Client::new(bench.server.at, &bench.token));
    let dialers = dialing(server, bench.corpus.users.iter().rev());
    let ids = dialers.iter().map(|(user, _)| {
        let (mut client, _) = server.login(user);
        let shown = parsed(client.send("GET", &format!("{CLIENT}/current-identity"), ""));
        format!("@{}", shown["data"]["id"].as_str().expect("an id"))
    });
    // A step may be measured again.
    let name = Uuid::new_v4().to_string();
    let ids: Vec<String> = ids.collect();
    let router = enrolled(server, &mut admin, &name);
    let of = |kind: &str, roles: Value| json!({ "name": name, "semantic": "AnyOf", "edgeRouterRoles": [format!("@{router}")], kind: roles });
    create(
        &mut admin,
        "/edge-router-policies",
        &of("identityRoles", json!(ids)),
    );
    create(
        &mut admin,
        "/service-edge-router-policies",
        &of("serviceRoles", json!(["#all"])),
    );
    let (user, services) = &dialers[0];
    assert!(
        token(reported(server, user).send(
            "POST",
            &format!("{CLIENT}/sessions"),
            &session_request(&services[0])
        ))
        .starts_with("ey")
    );
    opened(server, dialers)
}

/// Enrolls a router, which counts as one that needs signed tokens until it connects.
fn enrolled(server: &Server, admin: &mut Client, name: &str) -> String {
    let id = create(admin, "/edge-routers", &json!({ "name": name }));
    let shown = parsed(admin.send("GET", &format!("{MANAGEMENT}/edge-routers/{id}"), ""));
    let once = shown["data"]["enrollmentToken"].as_str().expect("a token");
    let key = rcgen::KeyPair::generate().expect("a key");
    let request = || {
        let mut params = rcgen::CertificateParams::default();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, id.as_str());
        params
            .serialize_request(&key)
            .and_then(|request| request.pem())
            .expect("a request")
    };
    let requests = json!({ "certCsr": request(), "serverCertCsr": request() }).to_string();
    Client::new(server.at, "").send(
        "POST",
        &format!("{CLIENT}/enroll?method=erott&token={once}"),
        &requests,
    );
    id
}

fn opened(server: &Server, dialers: Vec<Dialer>) -> Load<'_> {
    let new = move || {
        dialers
            .iter()
            .map(|(user, services)| (reported(server, user), services.clone()))
            .collect()
    };
    of_new(
        server,
        EACH,
        new,
        |(client, services): &mut (Client, Vec<String>), n| {
            client.send(
                "POST",
                &format!("{CLIENT}/sessions"),
                &session_request(&services[n]),
            );
        },
    )
}

fn at_fifty(name: &str, Pair { rate, floor, times }: Pair, goal: f64) -> Figure {
    let figure = Figure::new(format!("{name}, CPU each"), Microseconds(rate.cpu))
        .at_most(Microseconds(goal))
        .flat();
    figure.beside("a constant", Microseconds(floor.cpu), times)
}

fn alone(server: &Server, (user, services): &Dialer) -> Figure {
    let open = |client: &mut Client, n: usize| {
        _ = client.send(
            "POST",
            &format!("{CLIENT}/sessions"),
            &session_request(&services[n % EACH]),
        )
    };
    let constant = repeated(
        server,
        EACH,
        || reported(server, user),
        |client, _| health(client),
    );
    let Pair { rate, floor, .. } =
        repeated(server, EACH, || reported(server, user), open).beside(constant);
    let name = "POST /sessions, one client";
    let figure = Figure::new(format!("{name}, time"), Microseconds(rate.median))
        .floor("a constant", Microseconds(floor.median));
    figure.flat().latency(name, rate.median)
}

/// The service list, which names every policy that grants a service as soon as there is a check.
fn list(bench: &mut Bench, server: &Server) {
    let (mut client, _) = server.login(&identity(0));
    let path = format!("{CLIENT}/services?limit=500");
    let answer = client.send("GET", &path, "");
    let shown = parsed(answer)["data"].as_array().map_or(0, Vec::len);
    let bytes = answer.len() / shown;
    let listed = steady(server, vec![client], |client, _| {
        _ = client.send("GET", &path, "")
    })
    .beside(constant(bench));
    let name =
        "client's list of services where one policy in four asks for a check, page of 500, CPU";
    let figure = Figure::new(name, Microseconds(listed.rate.cpu));
    bench
        .sheet
        .add(figure.beside("a constant", Microseconds(listed.floor.cpu), listed.times));
    bench.sheet.add(Figure::new(
        "the same, bytes of a service in it, which names each policy that grants it",
        Count(bytes as f64),
    ));
}

/// Identities that may dial enough services, with these services.
fn dialers(server: &Server, corpus: &Corpus) -> Vec<Dialer> {
    dialing(server, corpus.users.iter())
}

fn dialing<'u>(server: &Server, users: impl Iterator<Item = &'u String>) -> Vec<Dialer> {
    const CLIENTS: usize = 50;
    // A service without a common edge router cannot be dialed.
    let dialing = |user: &String| {
        let mut client = reported(server, user);
        let page = parsed(client.send("GET", &format!("{CLIENT}/services?limit=100"), ""));
        let ids = page["data"]
            .as_array()?
            .iter()
            .filter_map(|service| service["id"].as_str().map(str::to_owned));
        let services: Vec<String> = ids
            .filter(|id| {
                client
                    .ask("POST", &format!("{CLIENT}/sessions"), &session_request(id))
                    .0
                    == 201
            })
            .collect();
        (services.len() >= EACH).then(|| (user.clone(), services))
    };
    let dialers: Vec<Dialer> = users.filter_map(dialing).take(CLIENTS).collect();
    assert_eq!(dialers.len(), CLIENTS, "too few may dial");
    dialers
}

/// A client whose endpoint has reported its domain.
fn reported(server: &Server, user: &str) -> Client {
    let (mut client, _) = server.login(user);
    let report = json!({ "typeId": "DOMAIN", "id": "any", "domain": DOMAIN }).to_string();
    client.send("POST", &format!("{CLIENT}/posture-response"), &report);
    client
}

fn session_request(service: &str) -> String {
    json!({ "serviceId": service, "type": "Dial" }).to_string()
}
