//! A controller in this process and callers that send requests to it.
//!
//! `TestServer` is a running controller, `Caller` a client with or without a session, `Answer` an
//! answer. Every answer goes through `openapi_check.rs`, which compares it with the interface's own
//! document, and through `secrets.rs`, which finds secrets in logs and errors. No test can skip
//! these checks.

mod answer;
mod caller;
mod enrolling;
mod https_server;
mod openapi_check;
mod openssl;
mod program;
mod rng;
mod secrets;
pub mod stores;
mod test_server;
#[path = "../../../benches/common/tls.rs"]
pub mod tls;
mod wire;

use std::sync::{
    LazyLock,
    atomic::{AtomicUsize, Ordering},
};

pub use answer::Answer;
pub use caller::{Base, Caller, encoded};
pub use enrolling::{Authority, Key};
pub use https_server::{HttpsServer, answer_json};
pub use openapi_check::interface;
pub use openssl::{ED25519, OpensslDirectory, P256, P384, RSA};
pub use program::{Program, command};
pub use rng::Rng;
pub use secrets::{SecretScan, check_log};
pub use test_server::{PASSWORD, TestServer, listed, trusting};
pub use tls::speaking;
pub use wire::{Wire, asking_for, frame};

/// The controller that is shared by all tests that look only at their own records.
pub fn shared() -> &'static TestServer {
    static SHARED: LazyLock<TestServer> = LazyLock::new(|| TestServer::start().unlinked());
    &SHARED
}

/// A name that is unique in this run.
pub fn fresh(what: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("{what}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}
