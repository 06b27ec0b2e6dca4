//! The event stream of the history: no row is missed, a caller without the permission gets no row,
//! and a client that does not read delays nobody.

use std::{
    io::{BufRead, BufReader},
    thread,
    time::{Duration, Instant},
};

use model::{clock::Clock, config::Span};
use redb::ReadableTable;
use serde_json::{Value as Json, json};
use ureq::http::Request;

use crate::{
    backup::DataFile,
    harness::{Answer, Base, Caller, TestServer, trusting},
};

/// The events of a connection, as they arrive.
pub struct EventStream(Box<dyn BufRead>);

/// One event: its id and type (blank if missing) and its data.
#[derive(Debug)]
pub struct Event {
    pub id: String,
    pub event: String,
    pub data: Json,
}

/// The status, or the events for status 200.
fn try_watch(caller: &Caller, last: &str) -> Result<EventStream, u16> {
    let request = Request::get(format!("{}/overkeep/v1/events", caller.url))
        .header("zt-session", caller.token.as_ref().unwrap());
    // A compressed stream could not be read event by event.
    let request = request
        .header("accept-encoding", "gzip")
        .header("accept", "text/event-stream")
        .header("last-event-id", last);
    let answer = caller.agent.run(request.body(()).unwrap()).unwrap();
    match answer.status().as_u16() {
        200 => Ok(EventStream(Box::new(BufReader::new(
            answer.into_body().into_reader(),
        )))),
        other => Err(other),
    }
}

/// The events after a row.
pub fn watch(caller: &Caller, last: &str) -> EventStream {
    let mut watch = try_watch(caller, last).unwrap();
    let mut first = String::new();
    watch.0.read_line(&mut first).unwrap();
    assert!(
        first.starts_with(':'),
        "a comment must be sent at once: {first:?}"
    );
    watch
}

impl EventStream {
    /// The next event; `None` at the end.
    pub fn next(&mut self) -> Option<Event> {
        let mut event = Event {
            id: String::new(),
            event: String::new(),
            data: Json::Null,
        };
        loop {
            let mut line = String::new();
            // A closed connection ends the stream as well.
            if self.0.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => event.id = id.into(),
                Some(("event", name)) => event.event = name.into(),
                Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                _ if !event.data.is_null() => return Some(event),
                _ => {}
            }
        }
    }
}

/// Repeats a query until it returns a value.
fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(40);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "never: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn events_resume_without_gaps() {
    let server = TestServer::start();
    let mut first = watch(&server.admin, "");
    let service = server.service("one", json!({}));
    let seen = first.next().unwrap();
    assert_eq!(
        (&seen.data["kind"], &seen.data["id"], &seen.data["action"]),
        (&json!("service"), &json!(service), &json!("create"))
    );
    assert_eq!(seen.data["sequence"].to_string(), seen.id);
    drop(first);
    let missed: Vec<String> = ["two", "three", "four"]
        .map(|name| server.service(name, json!({})))
        .into();
    let mut again = watch(&server.admin, &seen.id);
    let last: u64 = seen.id.parse().unwrap();
    for (at, id) in missed.iter().enumerate() {
        let event = again.next().unwrap();
        assert_eq!(
            (event.data["id"].as_str(), event.id),
            (Some(id.as_str()), (last + 1 + at as u64).to_string())
        );
    }
    let hashes = server.admin.get("/overkeep/v1/history?limit=1").expect(200);
    server.service("five", json!({}));
    assert_eq!(again.next().unwrap().data["name"], "five");
    assert_eq!(hashes.data()[0]["id"], missed[2].as_str());
    assert_eq!(try_watch(&server.admin, "not a number").err(), Some(400));
    let mut ahead = watch(&server.admin, &u64::MAX.to_string());
    server.service("six", json!({}));
    assert_eq!(
        ahead.next().unwrap().data["name"],
        "six",
        "an id of another history must be ignored"
    );
}

#[test]
fn watches_end_with_the_session() {
    let server = TestServer::start();
    let (_, bob) = server.user("robert", json!({}));
    assert_eq!(try_watch(&bob, "").err(), Some(401));
    let (id, ann) = server.user("anna", json!({ "isAdmin": true }));
    let mut open = watch(&ann, "");
    server
        .admin
        .patch(&format!("/identities/{id}"), json!({ "isAdmin": false }))
        .expect(200);
    assert!(
        open.next().is_none(),
        "a former administrator must get no further event"
    );
    let other = server.anonymous().log_in("admin", &server.password);
    let mut open = watch(&other, "");
    other.delete("/current-api-session").expect(200);
    assert!(open.next().is_none());
}

#[test]
fn trimmed_rows_are_reported() {
    let clock = Clock::manual(Clock::system().now());
    let server = TestServer::with(clock, |config| {
        config.history.max_age = Span::minutes(60);
        config.sessions.sweep_interval = Span::seconds(1);
    });
    server.clock.advance(Duration::from_secs(2 * 60 * 60));
    let admin = server.anonymous().log_in("admin", &server.password);
    let oldest = until("old rows go", || {
        let kept = admin
            .get("/overkeep/v1/history?sort=sequence&limit=1")
            .expect(200)
            .data()[0]["sequence"]
            .as_u64()
            .unwrap();
        (kept > 5).then_some(kept)
    });
    let mut open = watch(&admin, "3");
    let gone = open.next().unwrap();
    assert_eq!(
        (gone.event.as_str(), &gone.data),
        ("gone", &json!({ "from": 4, "to": oldest - 1 }))
    );
    assert_eq!(open.next().unwrap().data["sequence"], oldest);
}

#[test]
fn clock_jump_keeps_history() {
    let server = TestServer::with_manual_clock();
    let token =
        server.admin.post("/identities", json!({ "name": "late", "type": "Device", "isAdmin": false, "enrollment": { "ott": true } }));
    token.expect(201);
    let start = server.clock.now();
    server
        .clock
        .set(start.plus(Duration::from_secs(100 * 365 * 24 * 60 * 60)));
    server.run_due_jobs();
    let first = || {
        server
            .admin
            .get("/overkeep/v1/history?sort=sequence&limit=1")
            .expect(200)
            .data()[0]["sequence"]
            .clone()
    };
    let enrollments = || {
        server
            .admin
            .get("/enrollments")
            .expect(200)
            .data()
            .as_array()
            .unwrap()
            .len()
    };
    server.clock.set(start);
    assert_eq!((first(), enrollments()), (json!(1), 1));

    // A date ahead is trusted after a day: some hosts have no correct date when they start.
    server
        .clock
        .set(start.plus(Duration::from_secs(100 * 365 * 24 * 60 * 60)));
    server.run_due_jobs();
    server.clock.advance(Duration::from_secs(24 * 60 * 60));
    server.run_due_jobs();
    let admin = server.anonymous().log_in("admin", &server.password);
    assert!(
        admin
            .get("/overkeep/v1/history?sort=sequence&limit=1")
            .expect(200)
            .data()[0]["sequence"]
            != 1
    );
    assert_eq!(
        admin
            .get("/edge/management/v1/enrollments")
            .expect(200)
            .data()
            .as_array()
            .unwrap()
            .len(),
        0
    );
}

#[test]
fn stalled_readers_lose_their_place() {
    let server = TestServer::with(Clock::system(), |config| {
        config.history.readers = 1;
        config.http.request_timeout = Span::seconds(2);
    });
    let stalled = watch(&server.admin, "");
    assert_eq!(
        try_watch(&server.admin, "").err(),
        Some(429),
        "the limit of readers must apply"
    );
    let kind = server
        .admin
        .post("/config-types", json!({ "name": "any", "schema": {} }))
        .expect(201)
        .id();
    for n in 0..12 {
        let body = json!({ "name": format!("large {n}"), "configTypeId": kind, "data": { "text": "x".repeat(900_000) } });
        // On a busy host a request may exceed the time limit; its write happens all the same.
        server.admin.post("/configs", body);
    }
    let other = until("its place is free", || try_watch(&server.admin, "").ok());
    drop((stalled, other));
    until("so is that of one who hung up", || {
        server.admin.patch("/configs/none", json!({})).expect(404);
        try_watch(&server.admin, "").ok()
    });
}

#[test]
fn stop_does_not_wait_for_watches() {
    let server = TestServer::start();
    let mut open = watch(&server.admin, "");
    let start = Instant::now();
    drop(server.closed());
    // A running answer would delay the stop by 30 seconds.
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(
        open.next()
            .is_none_or(|event| event.data["action"] != "create")
    );
}

#[test]
fn damaged_row_hides_no_other() {
    let kept = DataFile::new();
    kept.keep_secret("password", "a password of a test");
    kept.tamper("data", "history", |rows| {
        let key = 9_u64.to_be_bytes();
        let row = rows.get(key.as_slice()).unwrap().unwrap().value().to_vec();
        rows.insert(key.as_slice(), &row[..row.len() - 1]).unwrap();
    });
    kept.ends("history verify", 3, "row 9 of the history");
    kept.ends("admin reset-password admin --password-file password", 0, "");
    let controller = kept.start();
    let admin = trusting(&format!("https://{}", controller.bound()))
        .log_in("admin", "a password of a test");
    let sequences = |answer: Answer| -> Vec<u64> {
        answer
            .data()
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["sequence"].as_u64().unwrap())
            .collect()
    };
    let overkeep = admin.at(Base::Overkeep);
    assert_eq!(
        sequences(
            overkeep
                .list(
                    "/history",
                    "sequence > 6 and sequence < 12 sort by sequence",
                    ""
                )
                .expect(200)
        ),
        [7, 8, 10, 11]
    );
    let end = overkeep.get("/history?limit=1").expect(200).total();
    assert_eq!(
        sequences(overkeep.get("/history?limit=500").expect(200)).len() as u64,
        end - 1
    );
    let mut watch = watch(&admin, "7");
    let seen: Vec<String> = (0..3)
        .map(|_| watch.next().unwrap())
        .map(|event| format!("{}{}", event.event, event.id))
        .collect();
    assert_eq!(seen, ["8", "gone", "10"]);
}
