//! A controller in this process and callers that speak to it, so that tests read as what people do.
//!
//! `TestServer` is a running controller, `Caller` somebody with or without a session, `Answer` what came back. Every answer goes through
//! `judge.rs` on its way, which holds it against the interface's own document, and through `secrets.rs`, which knows what may not be
//! read in logs and errors; no test can leave that out.

mod answer;
mod caller;
mod dice;
mod enrolling;
mod judge;
mod program;
mod secrets;
pub mod stores;
mod test_server;
#[path = "../../../benches/common/tls.rs"]
mod tls;
mod wire;

use std::sync::{
    LazyLock,
    atomic::{AtomicUsize, Ordering},
};

pub use answer::Answer;
pub use caller::{Base, Caller, encoded};
pub use dice::Dice;
pub use enrolling::{Authority, Key};
pub use judge::interface;
pub use program::{Program, command};
pub use secrets::SecretScan;
pub use test_server::{PASSWORD, TestServer, listed, trusting};
pub use tls::speaking;
pub use wire::{Wire, asking_for, frame};

/// The controller of all tests that only look at records of their own.
pub fn shared() -> &'static TestServer {
    static SHARED: LazyLock<TestServer> = LazyLock::new(|| TestServer::start().unnamed());
    &SHARED
}

/// A name that nothing else in this run has.
pub fn fresh(what: &str) -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("{what}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}
