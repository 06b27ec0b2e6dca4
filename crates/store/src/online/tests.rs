//! Unit tests of `online.rs`.

use super::*;
use std::sync::Mutex;

#[test]
fn links_reach_connected_routers() {
    let online = Online::default();
    for id in ["a", "b", "c", "d", "e"] {
        online.set_router(id, Some(RouterInfo::default()));
    }
    let reached = |may_pass: fn(&str) -> bool| {
        let mut reached: Vec<_> = online
            .reached_from(["a"].into_iter(), may_pass)
            .into_iter()
            .collect();
        reached.sort();
        reached.concat()
    };
    for [one, other] in [["a", "b"], ["c", "b"], ["c", "d"]] {
        online.link_opened(&format!("{one}{other}"), [one.into(), other.into()]);
    }
    assert_eq!(
        (reached(|_| true), reached(|router| router != "b")),
        ("abcd".into(), "ab".into())
    );
    let at = Timestamp::from_millis(7);
    online.router_left("c", at);
    assert_eq!(
        (reached(|_| true), online.disconnected()),
        ("ab".into(), vec![("c".into(), at)])
    );
    online.set_router("c", Some(RouterInfo::default()));
    assert_eq!(
        (reached(|_| true), online.disconnected()),
        ("abcd".into(), vec![])
    );
    assert!(online.are_linked("b", "c") && !online.are_linked("b", "d"));
    online.link_lost("cb", "cut", at);
    online.link_lost("cb", "cut again", at);
    assert_eq!(reached(|_| true), "ab");
    assert_eq!(
        online.lost_links(),
        [LostLink {
            ends: ["c".into(), "b".into()],
            reason: "cut".into(),
            at
        }]
    );
}

#[test]
fn the_oldest_departures_are_forgotten() {
    let online = Online::default();
    for at in 0..=MAX_LEFT as i64 {
        online.router_left(&at.to_string(), Timestamp::from_millis(at));
    }
    let left = online.disconnected();
    assert!(left.len() == MAX_LEFT && left.iter().all(|(id, _)| id != "0"));
}

#[test]
fn identities_count_their_channels() {
    let (online, notified) = (Online::default(), Arc::new(Mutex::new(0)));
    let count = notified.clone();
    online.subscribe(move |_| *count.lock().unwrap() += 1);
    assert!(!online.identity("ann"));
    online.channel_opened("ann");
    online.channel_opened("ann");
    online.channel_closed("ann");
    assert!(online.identity("ann") && *notified.lock().unwrap() == 1);
    online.channel_closed("ann");
    online.channel_closed("ann");
    assert!(!online.identity("ann") && *notified.lock().unwrap() == 2);
}
