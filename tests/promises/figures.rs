//! The comparison of measured figures with recorded ones (`.ci/run figures`).

#[path = "../../benches/common/recorded.rs"]
mod recorded;

use recorded::{faults, read};

const RECORDED: &str = "poll = 2.0\nlist = 10.0\n";

#[test]
fn a_figure_half_higher_fails() {
    let recorded = read(RECORDED).unwrap();
    let faults = |poll, list| faults(&recorded, &[("poll", poll), ("list", list)]);
    assert!(
        faults(2.0, 10.0).is_empty() && faults(3.0, 15.0).is_empty() && faults(0.1, 1.0).is_empty()
    );
    assert_eq!(
        faults(3.01, 10.0),
        ["poll is 3.01, 1.50 times the recorded 2.00; 1.5 times is allowed"]
    );
    assert_eq!(faults(4.0, 20.0).len(), 2);
    for unmeasured in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(faults(unmeasured, 10.0).len(), 1, "{unmeasured}");
    }
}

#[test]
fn names_of_figures_must_agree() {
    let recorded = read(RECORDED).unwrap();
    assert_eq!(
        faults(&recorded, &[("poll", 2.0)]),
        ["list is recorded and not measured"]
    );
    let more = [("poll", 2.0), ("list", 10.0), ("detail", 1.0)];
    assert_eq!(
        faults(&recorded, &more),
        ["detail is measured and not recorded"]
    );
}

#[test]
fn recorded_figures_are_numbers() {
    for bad in [
        "poll = \"2\"",
        "poll = 0.0",
        "poll = -1.0",
        "poll = nan",
        "poll = inf",
        "poll =",
        "[poll]\nratio = 2.0",
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
    assert_eq!(read("poll = 2").unwrap()["poll"], 2.0);
    assert!(
        read(include_str!("../../benches/scale/recorded.toml"))
            .is_ok_and(|recorded| !recorded.is_empty())
    );
}
