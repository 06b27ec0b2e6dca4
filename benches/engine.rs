//! The access engine with model L: 100,000 identities, 10,000 services, 500 edge routers, 1,000
//! service policies, 350 router policies. Roles are AnyOf over 8 attributes that 1/2 to 1/10 of the
//! subjects carry; one identity is in every policy. Prints a Markdown table. The floor of the same
//! run is one pass over a bitmap of 100,000 bits. Goals are for the p99. `cargo bench --bench
//! engine`.

#![allow(clippy::indexing_slicing)] // a bench that panics says so

#[path = "common/dice.rs"]
mod dice;

use dice::Dice;
use policy::access::{Delta, Engine, MatchRule, Policy, PolicyEntityKind, PolicyKind, Right};
use roaring::RoaringBitmap;
use std::{
    fs,
    hint::black_box,
    time::{Duration, Instant},
};
use {MatchRule::*, PolicyEntityKind::*, Right::Dial};

const IDENTITIES: usize = 100_000;
const SERVICES: usize = 10_000;
const EDGE_ROUTERS: usize = 500;

type Subjects = Vec<(PolicyEntityKind, String, Vec<String>)>;

struct Corpus {
    subjects: Subjects,
    service_policies: Vec<[Vec<String>; 2]>,
    router_policies: Vec<[Vec<String>; 2]>,
}

fn identity(n: usize) -> String {
    format!("identity-{n:06}")
}

fn service(n: usize) -> String {
    format!("service-{n:05}")
}

fn corpus(service_policies: usize, dice: &mut Dice) -> Corpus {
    let mut subjects = Subjects::new();
    subjects.extend((0..IDENTITIES).map(|n| (Identity, identity(n), dice.roles())));
    subjects.extend((0..SERVICES).map(|n| (Service, service(n), dice.roles())));
    subjects
        .extend((0..EDGE_ROUTERS).map(|n| (EdgeRouter, format!("router-{n:03}"), dice.roles())));
    let mut policy = |_| {
        let mut near = dice.list();
        near.push(format!("@{}", identity(0)));
        [near, dice.list()]
    };
    Corpus {
        subjects,
        service_policies: (0..service_policies).map(&mut policy).collect(),
        router_policies: (0..350).map(&mut policy).collect(),
    }
}

fn load(corpus: &Corpus, semantic: MatchRule) -> Engine {
    let mut engine = Engine::new();
    for (subject, id, roles) in &corpus.subjects {
        engine.put_subject(*subject, id, roles, 0);
    }
    for (n, [identities, services]) in corpus.service_policies.iter().enumerate() {
        let policy = Policy::service(
            Dial,
            semantic,
            identities.clone(),
            services.clone(),
            Vec::new(),
        );
        engine.put_policy(&format!("policy-{n:05}"), &policy, 0);
    }
    for (n, [identities, edge_routers]) in corpus.router_policies.iter().enumerate() {
        let make = if n % 2 == 0 {
            Policy::edge_router
        } else {
            Policy::service_edge_router
        };
        engine.put_policy(
            &format!("router-policy-{n:03}"),
            &make(semantic, identities.clone(), edge_routers.clone()),
            0,
        );
    }
    engine
}

struct Row {
    what: String,
    p50: Duration,
    p99: Duration,
    /// The goal for the p99.
    goal: Option<Duration>,
}

impl Row {
    fn at_most(self, goal: Duration) -> Self {
        Self {
            goal: Some(goal),
            ..self
        }
    }
}

const CHANGE: Duration = Duration::from_millis(1);
const DECISION: Duration = Duration::from_micros(50);
const PREVIEW: Duration = Duration::from_millis(100);

fn measure(what: &str, runs: usize, mut run: impl FnMut(usize)) -> Row {
    let mut times: Vec<Duration> = (0..runs)
        .map(|n| {
            let start = Instant::now();
            run(n);
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    Row {
        what: what.into(),
        p50: times[runs / 2],
        p99: times[runs * 99 / 100],
        goal: None,
    }
}

fn print(rows: &[Row], floor: &Row) {
    println!("\n| | median | p99 | goal (p99) | |\n|---|---|---|---|---|");
    for row in [floor].into_iter().chain(rows) {
        let met = |goal| if row.p99 <= goal { "met" } else { "missed" };
        let (goal, met) = row
            .goal
            .map_or_else(Default::default, |goal| (text(goal), met(goal)));
        println!(
            "| {} | {} | {} | {goal} | {met} |",
            row.what,
            text(row.p50),
            text(row.p99)
        );
    }
}

/// A duration with a unit.
fn text(time: Duration) -> String {
    let microseconds = time.as_secs_f64() * 1e6;
    let (value, unit) = match microseconds {
        ..1e3 => (microseconds, "us"),
        1e3..1e6 => (microseconds / 1e3, "ms"),
        _ => (microseconds / 1e6, "s"),
    };
    let decimals = usize::from(value < 10.0 && value.fract() != 0.0);
    format!("{value:.decimals$} {unit}")
}

/// Resident memory of this process in KiB (Linux).
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or_default()
}

fn floor() -> Row {
    let bitmap: RoaringBitmap = (0..IDENTITIES as u32).filter(|n| n % 2 == 0).collect();
    measure("floor: one pass over a bitmap of 100,000 bits", 200, |_| {
        black_box(bitmap.iter().fold(0_u32, u32::wrapping_add));
    })
}

fn changes(engine: &mut Engine, rows: &mut Vec<Row>) {
    let wide = |services: &[&str]| {
        let services = services.iter().map(ToString::to_string).collect();
        Policy::service(Dial, AnyOf, vec!["#all".into()], services, Vec::new())
    };
    let policies = [wide(&["#thousand"]), wide(&[])];
    for n in 0..1_000 {
        engine.put_subject(Service, &service(n * 10), &["thousand".into()], 0);
    }
    let asks = "the same, and the busiest identity's services afterwards";
    for (what, asks) in [
        (
            "change of a policy over all identities and 1,000 services",
            false,
        ),
        (asks, true),
    ] {
        let row = measure(what, 200, |n| {
            engine.put_policy("wide", &policies[n % 2], n as u64);
            if asks {
                black_box(engine.rights(&identity(0)));
            }
        });
        rows.push(if asks { row } else { row.at_most(CHANGE) });
    }
    let roles = |n: usize| [format!("role{}", n % 2), "role5".into()];
    rows.push(measure("role change of one identity", 2_000, |n| {
        engine.put_subject(Identity, &identity(n * 13), &roles(n), n as u64);
    }));
    rows.push(measure("role change of one service", 2_000, |n| {
        engine.put_subject(Service, &service(n), &roles(n), n as u64);
    }));
    rows.push(measure("a new identity", 2_000, |n| {
        engine.put_subject(Identity, &format!("new-{n}"), &roles(n), n as u64)
    }));
}

fn lists(engine: &mut Engine, rows: &mut Vec<Row>) {
    let busy = identity(0);
    let rights = engine.rights(&busy);
    println!(
        "services visible to the identity in every policy: {}",
        engine.visible(&rights).len()
    );
    rows.push(measure(
        "rights of an identity of its own class, first time",
        200,
        |n| {
            engine.put_subject(Service, "bump", &[format!("role{}", n % 8)], n as u64);
            black_box(engine.rights(&busy));
        },
    ));
    rows.push(measure(
        "rights of the 100,000 identities one after the other, none evaluated",
        5,
        |n| {
            engine.put_subject(Service, "bump", &[format!("role{}", n % 8)], n as u64);
            (0..IDENTITIES).for_each(|n| _ = black_box(engine.rights(&identity(n))));
        },
    ));
    rows.push(measure("rights, repeated", 2_000, |_| {
        _ = black_box(engine.rights(&busy))
    }));
    rows.push(measure(
        "its rights, and the order of its services by id, first time",
        200,
        |n| {
            engine.put_subject(Service, "bump", &[format!("role{}", n % 8)], n as u64);
            let rights = engine.rights(&busy);
            _ = black_box(engine.visible(&rights));
        },
    ));
    for (what, skip) in [
        ("page 500 of its services by id, first", 0),
        ("page 500 of its services by id, last", 9_000),
    ] {
        rows.push(measure(what, 500, |_| {
            let rights = engine.rights(&busy);
            let page = engine.visible(&rights).iter().skip(skip).take(500);
            black_box(
                page.filter_map(|row| engine.id(Service, *row).cloned())
                    .collect::<Vec<_>>(),
            );
        }));
    }
    rows.push(measure("service-updates, nothing changed", 2_000, |n| {
        _ = black_box(engine.last_change_at(&identity(n), 1))
    }));
    rows.push(measure(
        "service-updates after a change elsewhere",
        2_000,
        |n| {
            engine.service_changed(&service(5), n as u64);
            black_box(engine.last_change_at(&identity(n), 1));
        },
    ));
    rows.push(measure("identities that may dial a service", 500, |n| {
        _ = black_box(engine.identities(&service(n), Dial).len())
    }));
}

fn policy_delta(id: &str, policy: Option<Policy>) -> Delta {
    Delta::Policy {
        kind: PolicyKind::Service,
        id: id.into(),
        policy,
    }
}

fn hosted_by_all(services: &str) -> Policy {
    Policy::service(
        Right::Bind,
        AnyOf,
        vec!["#all".into()],
        vec![services.into()],
        Vec::new(),
    )
}

fn previews(engine: &mut Engine, rows: &mut Vec<Row>) {
    let subject = |kind, id, roles: Option<&[&str]>| Delta::Subject {
        kind,
        id,
        roles: roles.map(|roles| roles.iter().map(ToString::to_string).collect()),
    };
    let cases = [
        (
            "a new policy over all identities and an eighth of the services",
            policy_delta("new", Some(hosted_by_all("#role5"))),
        ),
        (
            "a new policy over all identities and all services",
            policy_delta("new", Some(hosted_by_all("#all"))),
        ),
        (
            "the deletion of a policy",
            policy_delta("policy-00500", None),
        ),
        (
            "the deletion of the identity in every policy",
            subject(Identity, identity(0), None),
        ),
        (
            "other roles of an identity",
            subject(Identity, identity(77), Some(&["role0", "role5"])),
        ),
        (
            "the deletion of a service",
            subject(Service, service(7), None),
        ),
        (
            "the deletion of an edge router",
            subject(EdgeRouter, "router-007".into(), None),
        ),
    ];
    for (what, deltas) in cases {
        let deltas = [deltas];
        let row = measure(&format!("preview of {what}"), 20, |_| {
            _ = black_box(engine.difference(&deltas, 20))
        });
        rows.push(row.at_most(PREVIEW));
    }
}

/// The worst case: no two services are alike, so that each is evaluated separately.
fn preview_of_all_unlike(engine: &mut Engine, rows: &mut Vec<Row>) {
    for n in 0..SERVICES {
        engine.put_subject(
            Service,
            &service(n),
            &[
                "thousand".into(),
                format!("only-{n}"),
                format!("role{}", n % 8),
            ],
            0,
        );
    }
    let deltas = [policy_delta("new", Some(hosted_by_all("#thousand")))];
    let what = "preview at its worst: a policy over everything, no two services alike";
    rows.push(measure(what, 5, |_| {
        _ = black_box(engine.difference(&deltas, 20))
    }));
}

fn decisions(engine: &mut Engine, dice: &mut Dice, what: &str, rows: &mut Vec<Row>) {
    let pairs: Vec<_> = (0..20_000)
        .map(|_| {
            (
                identity(dice.below(IDENTITIES as u64) as usize),
                service(dice.below(SERVICES as u64) as usize),
            )
        })
        .collect();
    let mut yes = 0;
    let row = measure(&format!("may dial, {what}"), pairs.len(), |n| {
        yes += u32::from(black_box(engine.may(&pairs[n].0, &pairs[n].1, Dial)));
    });
    rows.push(row.at_most(DECISION));
    println!("{what}: {yes} of {} may", pairs.len());
    rows.push(measure(
        &format!("may not bind, {what}"),
        pairs.len(),
        |n| _ = black_box(engine.may(&pairs[n].0, &pairs[n].1, Right::Bind)),
    ));
    rows.push(measure(&format!("routers in common, {what}"), 2_000, |n| {
        black_box(engine.common_edge_routers(&pairs[n].0, &pairs[n].1).len());
    }));
    rows.push(measure(
        &format!("service policies of an identity, {what}"),
        2_000,
        |n| {
            black_box(
                engine
                    .policies(PolicyKind::Service, Identity, &pairs[n].0)
                    .len(),
            );
        },
    ));
}

fn main() {
    let mut dice = Dice::new();
    let large = corpus(1_000, &mut dice);
    let before = resident();
    let mut engine = load(&large, AnyOf);
    println!(
        "memory of the engine, nobody asked: {:.1} MB",
        (resident().saturating_sub(before)) as f64 / 1024.0
    );
    (0..IDENTITIES).for_each(|n| _ = engine.rights(&identity(n)));
    println!(
        "memory of the engine, all 100,000 asked: {:.1} MB",
        (resident().saturating_sub(before)) as f64 / 1024.0
    );
    let mut kept = Vec::new();
    let mut rows = vec![measure("bulk load", 5, |_| kept.push(load(&large, AnyOf)))];
    drop(kept);
    decisions(&mut engine, &mut dice, "1,000 policies AnyOf", &mut rows);
    lists(&mut engine, &mut rows);
    previews(&mut engine, &mut rows);
    changes(&mut engine, &mut rows);
    preview_of_all_unlike(&mut engine, &mut rows);
    let wide = corpus(10_000, &mut dice);
    for (semantic, what) in [
        (AnyOf, "10,000 policies AnyOf"),
        (AllOf, "10,000 policies AllOf"),
    ] {
        let mut engine = load(&wide, semantic);
        decisions(&mut engine, &mut dice, what, &mut rows);
        rows.push(measure(&format!("rights, first time, {what}"), 50, |n| {
            engine.put_subject(Service, "bump", &[format!("role{}", n % 8)], n as u64);
            black_box(engine.rights(&identity(n)));
        }));
    }
    print(&rows, &floor());
}
