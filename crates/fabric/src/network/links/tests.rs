//! Tests of links that routers report.

use std::collections::BTreeSet;

use super::*;

const LOSS: Loss<'static> = Loss {
    reason: "a test",
    at: Timestamp::from_millis(0),
};

fn report(
    links: &ReportedLinks,
    source: &str,
    id: &str,
    destination: &str,
    iteration: u32,
) -> Reported {
    let (id, destination_router_id, protocol) = (id.into(), destination.into(), "tls".into());
    let reported = fabric::RouterLink {
        id,
        destination_router_id,
        protocol,
        iteration,
        ..fabric::RouterLink::default()
    };
    links.report(source, reported, Timestamp::from_millis(0))
}

#[test]
fn links_belong_to_their_dialler() {
    let links = ReportedLinks::new(Online::default());
    assert_eq!(report(&links, "a", "l", "b", 1), Reported::Added);
    assert_eq!(report(&links, "a", "l", "b", 1), Reported::Known);
    assert_eq!(
        report(&links, "c", "l", "b", 9),
        Reported::Refused,
        "of another router"
    );
    assert_eq!(report(&links, "a", "self", "a", 1), Reported::Refused);
    assert_eq!(
        report(&links, "a", &"x".repeat(MAX_TEXT + 1), "b", 1),
        Reported::Refused
    );
    assert_eq!(
        report(&links, "a", "l", "b", 2),
        Reported::Added,
        "dialed again"
    );
    assert!(links.remove("l", "c", 2, LOSS).is_none(), "no end of it");
    assert!(
        links.remove("l", "b", 1, LOSS).is_none(),
        "an older iteration"
    );
    assert!(links.remove("l", "b", 2, LOSS).is_some() && links.all().is_empty());
    for number in 0..MAX_LINKS {
        assert_eq!(
            report(&links, "a", &number.to_string(), "b", 1),
            Reported::Added
        );
    }
    assert_eq!(report(&links, "a", "one more", "b", 1), Reported::Refused);
}

#[test]
fn routers_lose_only_their_links() {
    let links = ReportedLinks::new(Online::default());
    for (source, id, destination) in [
        ("a", "1", "b"),
        ("a", "2", "c"),
        ("b", "3", "c"),
        ("c", "4", "a"),
    ] {
        assert_eq!(report(&links, source, id, destination, 1), Reported::Added);
    }
    let ids = |lost: Vec<ReportedLink>| {
        lost.into_iter()
            .map(|link| link.id)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        ids(links.remove_dialed("a", &HashSet::from(["2"]), LOSS)),
        ["1".to_owned()].into()
    );
    // The destination of a link may change.
    assert!(matches!(
        report(&links, "a", "2", "b", 2),
        Reported::Moved(_)
    ));
    assert_eq!(
        ids(links.remove_all_of("c", LOSS)),
        ["3", "4"].map(String::from).into()
    );
    assert_eq!(ids(links.all()), ["2".to_owned()].into());
    assert_eq!(
        (ids(links.remove_all_of("b", LOSS)), links.all()),
        (["2".to_owned()].into(), vec![])
    );
}

#[test]
fn links_count_when_confirmed() {
    let links = ReportedLinks::new(Online::default());
    let is_open = |id: &str, other: &str| {
        (
            links.cost_between(id, ["a", other]).is_some(),
            links.online.are_linked("a", other),
        )
    };
    for id in ["1", "2", "3", "4"] {
        assert_eq!(report(&links, "a", id, "b", 1), Reported::Added);
        assert_eq!(is_open(id, "b"), (false, false), "{id}");
    }
    assert!(links.has_unconfirmed("b") && !links.has_unconfirmed("a"));
    assert!(
        !links.measured("1", "a", Duration::from_secs(65))
            && !links.accepted("a", "b")
            && !links.accepted("c", "a")
    );
    assert!(
        !links.confirm("a", |_| true) && !links.confirm("c", |_| true),
        "not by the router that has dialed it, nor by another one"
    );
    assert_eq!(is_open("1", "b"), (false, false));
    assert!(
        links.measured("1", "b", Duration::from_secs(65))
            && !links.measured("1", "b", Duration::from_secs(65))
    );
    assert_eq!(
        (
            report(&links, "b", "2", "a", 1),
            report(&links, "b", "2", "a", 1)
        ),
        (Reported::Confirmed, Reported::Known)
    );
    assert!(links.confirm("b", |link| link.id == "3"));
    assert!(
        ["1", "2", "3"]
            .into_iter()
            .all(|id| is_open(id, "b") == (true, true))
            && links.cost_between("4", ["a", "b"]).is_none()
    );
    assert!(links.accepted("b", "a") && !links.has_unconfirmed("b"));
    assert_eq!(report(&links, "a", "5", "b", 1), Reported::Added);
    assert_eq!(
        is_open("5", "b"),
        (true, true),
        "it accepts links from there"
    );
    links.forget_accepted("a");
    assert_eq!(
        (
            report(&links, "a", "5", "b", 2),
            report(&links, "a", "6", "b", 1)
        ),
        (Reported::Added, Reported::Added)
    );
    assert!(
        is_open("5", "b").0 && !is_open("6", "b").0,
        "one that was dialed again stays confirmed"
    );
    assert!(matches!(
        report(&links, "a", "5", "c", 3),
        Reported::Moved(_)
    ));
    assert_eq!(is_open("5", "c"), (false, false));
}

#[test]
fn moved_links_leave_their_path() {
    let links = ReportedLinks::new(Online::default());
    for (router, source) in [("b", "a"), ("c", "a")] {
        assert!(!links.accepted(router, source));
    }
    report(&links, "a", "l", "b", 1);
    assert_eq!(links.cost_between("l", ["b", "a"]), Some(130_001));
    assert!(matches!(
        report(&links, "a", "l", "c", 2),
        Reported::Moved(_)
    ));
    assert_eq!(
        (
            links.cost_between("l", ["a", "b"]),
            links.cost_between("l", ["a", "c"])
        ),
        (None, Some(130_001))
    );
}

#[test]
fn latencies_of_both_sides_count() {
    let links = ReportedLinks::new(Online::default());
    report(&links, "a", "l", "b", 1);
    assert_eq!(links.find("l").unwrap().cost(), 130_001);
    assert!(links.measured("l", "a", Duration::from_micros(1900)));
    assert_eq!(links.find("l").unwrap().cost(), 65_002);
    assert!(links.measured("l", "b", Duration::from_millis(2)));
    assert_eq!(links.find("l").unwrap().cost(), 4);
    assert!(
        !links.measured("l", "b", Duration::from_micros(2500)),
        "the same cost"
    );
    assert!(
        !links.measured("l", "c", Duration::ZERO)
            && !links.measured("unknown", "a", Duration::ZERO)
    );
}

#[test]
fn bytes_of_either_end_suffice() {
    let links = ReportedLinks::new(Online::default());
    report(&links, "a", "l", "b", 1);
    let counted = |router, bytes| {
        links.counted("l", router, bytes);
        links.find("l").unwrap().sent_bytes()
    };
    assert_eq!(
        counted("c", [Some(9), Some(9)]),
        [None, None],
        "no end of it"
    );
    assert_eq!(counted("a", [Some(1), Some(2)]), [Some(1), Some(2)]);
    assert_eq!(counted("b", [Some(3), Some(4)]), [Some(1), Some(3)]);
    assert_eq!(counted("a", [None, None]), [Some(4), Some(3)]);
}
