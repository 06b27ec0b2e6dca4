//! Under attack: load is bounded, answers are clear, and nobody learns which users exist.

mod connections;
mod guesses;

use std::{
    fs,
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};

use model::{
    clock::Clock,
    config::{Config, Span},
};

use serde_json::{Value as Json, json};

use tempfile::TempDir;

use crate::{
    harness::{
        Answer, Caller, Key, PASSWORD, Program, SecretScan, TestServer, Wire, asking_for, frame,
        fresh, shared,
    },
    second_factors::{AnswerMode, endpoint, locking_in, signer},
};

/// A controller with narrow limits and short timeouts.
fn narrow() -> &'static TestServer {
    static NARROW: LazyLock<TestServer> =
        LazyLock::new(|| TestServer::with(Clock::system(), narrowed).unlinked());
    &NARROW
}

fn narrowed(config: &mut Config) {
    config.http.max_head_bytes = 8192;
    config.http.max_open_body_bytes = 16_384;
    config.http.request_timeout = Span::seconds(2);
    config.http.client_timeout = Span::seconds(1);
    config.http.unread_timeout = Span::seconds(1);
    config.sessions.per_identity = 3;
    config.sessions.certificates = 4;
}

fn with_retry(answer: &Answer) {
    let seconds = answer.header("retry-after").parse::<u32>();
    assert!(
        seconds.is_ok_and(|seconds| seconds > 0),
        "{}: {:?}",
        answer.request,
        answer.headers
    );
}

/// The parts of an answer that are equal for equal causes.
fn told(answer: Answer) -> (u16, Vec<String>, Json) {
    let (status, mut json) = (answer.status, answer.json);
    json["error"]["requestId"] = Json::Null;
    let mut headers: Vec<String> = answer.headers.keys().map(|name| name.to_string()).collect();
    headers.sort();
    (status, headers, json)
}
