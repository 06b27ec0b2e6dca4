//! Fairness: honest logins continue while passwords are being guessed.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use model::clock::Clock;
use serde_json::json;

use crate::harness::{PASSWORD, TestServer};

#[test]
fn guessing_does_not_slow_other_logins() {
    let server = TestServer::with(Clock::system(), |config| {
        (config.passwords.queue, config.passwords.cost) = (4, 12)
    });
    server.user("victim", json!({}));
    server.user("honest", json!({}));
    let (over, guesses) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                let guess = json!({ "username": "victim", "password": "not the password" });
                while !over.load(Ordering::Relaxed) {
                    let answer = server
                        .anonymous()
                        .post("/authenticate?method=password", guess.clone());
                    assert!([401, 429].contains(&answer.status), "{}", answer.text);
                    guesses.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while guesses.load(Ordering::Relaxed) < 48 {
            thread::yield_now();
        }
        let log_in = || {
            server.anonymous().post(
                "/authenticate?method=password",
                json!({ "username": "honest", "password": PASSWORD }),
            )
        };
        let turned_away = (0..30).filter(|_| log_in().status != 200).count();
        over.store(true, Ordering::Relaxed);
        assert_eq!(turned_away, 0, "of 30 honest log-ins");
    });
}
