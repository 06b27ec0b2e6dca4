//! A log-in: what it sends, and what its answer says.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::error::SessionError;
use crate::controller::or_default;

/// Asks for the code of a second factor. Blocks. The error is for people.
pub type AskCode = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// What a log-in may use beside the identity.
#[derive(Clone, Default)]
pub struct LogInOptions {
    /// The file of the identity, which a renewed certificate is written to. Without it the
    /// certificate is not renewed.
    pub file: Option<PathBuf>,
    pub ask_code: Option<AskCode>,
}

/// The answer to a log-in.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LoggedIn {
    pub(super) token: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) auth_queries: Vec<AuthQuery>,
    pub(super) identity: Named,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) identity_id: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) authenticator_id: String,
    /// How long the session lives without a request.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) expiration_seconds: u64,
    /// Not every controller says it.
    #[serde(default)]
    pub(super) is_cert_extendable: Option<bool>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) is_cert_extend_requested: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) is_cert_key_roll_requested: bool,
    /// Whether the presented certificate lacked the authorities between it and the root.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) improper_client_cert_chain: bool,
}

/// A log-in that was refused.
pub(super) struct RefusedLogIn {
    pub(super) error: SessionError,
    pub(super) pause: Duration,
    /// No other one is tried before.
    pub(super) until: Instant,
}

/// What a log-in still wants.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuthQuery {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) type_id: String,
}

#[derive(Clone, Default, Deserialize)]
pub(super) struct Named {
    #[serde(default)]
    pub(super) name: String,
}

/// A description of this machine, for administrators.
pub(super) fn environment() -> Json {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    json!({
        "os": text(name.sysname()).to_ascii_lowercase(),
        "osRelease": text(name.release()),
        "osVersion": text(name.version()),
        "arch": text(name.machine()),
        "hostname": text(name.nodename()),
    })
}
