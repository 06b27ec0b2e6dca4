//! The configuration: every key with its default.
//!
//! Not here: what a key means and when to change it (`controller.toml` in the top directory; a test
//! compares it with this module), and how flags, variables and the file are merged (`cli/run.rs`).
//! Start with `Config` and its `Default`; then `validation.rs`, the bounds of each key, and
//! `value.rs`, the syntax of durations and addresses.
//!
//! Invariant: a key is defined only by a field here; its name in the file and its variable follow
//! from the field's name.

mod defaults;
mod error;
mod listen;
mod router;
mod secret_file;
mod validation;
mod value;

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use error::ConfigError;
pub(crate) use listen::Listen;
pub use router::{ControlTimes, RemoteRoutersConfig, RouterConfig};
pub use secret_file::{passphrase, password};
pub use value::{Address, InvalidText, InvalidValue, Span};

use pki::Passphrase;
use zeroize::Zeroizing;

/// The whole configuration of a controller. Relative paths start at the working directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Config {
    pub data: PathBuf,
    /// With port 0 the system chooses a free port.
    pub listen: Listen,
    /// As given; `Config::advertised` supplies the default.
    #[serde(deserialize_with = "value::addresses")]
    pub advertise: Vec<Address>,
    /// Read by `Config::admin_password`, only when there is no administrator yet.
    pub admin_password_file: Option<PathBuf>,
    /// Read by `Config::passphrase` whenever keys are needed.
    pub passphrase_file: Option<PathBuf>,
    pub tls: Tls,
    pub log: Log,
    pub http: Http,
    pub members: MemberLimits,
    pub sessions: SessionConfig,
    pub enrollment: EnrollmentConfig,
    pub passwords: PasswordConfig,
    pub codes: CodeConfig,
    pub tokens: TokenConfig,
    pub key_sets: KeySetConfig,
    pub posture: PostureConfig,
    pub router: RouterConfig,
    pub routers: RemoteRoutersConfig,
    pub store: StoreConfig,
    pub history: HistoryConfig,
    pub snapshots: Snapshots,
    pub integrity: Integrity,
    pub metrics: MetricsConfig,
}

/// The listener's certificate and key, if the controller's own are not to be used. Both or neither.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tls {
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Log {
    /// A level, or the filter syntax of tracing-subscriber: `info,overkeep_store=debug`.
    pub level: String,
    pub format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Text on a terminal, JSON otherwise.
    Auto,
    Text,
    Json,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Http {
    /// Exact origins, or `*` alone; if empty, only pages of the controller's own origin have
    /// access.
    pub cors_origins: Vec<String>,
    pub request_timeout: Span,
    pub client_timeout: Span,
    pub handshake_timeout: Span,
    pub keep_alive: Span,
    pub unread_timeout: Span,
    /// Bytes of unread answers on one connection, and on all connections together.
    pub max_unread_bytes: usize,
    pub max_unread_bytes_total: usize,
    /// Concurrent requests on one HTTP/2 connection.
    pub max_streams: usize,
    pub max_connections: usize,
    pub max_handshakes: usize,
    pub max_requests: usize,
    pub max_head_bytes: usize,
    pub max_body_bytes: usize,
    /// For requests that need no session.
    pub max_open_body_bytes: usize,
    /// Threads that answer requests; 0 means one per core.
    pub workers: usize,
}

/// The bounds of one free-form member of a request: `tags`, `appData`, `roleAttributes`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MemberLimits {
    pub entries: usize,
    pub bytes: usize,
    /// For records written over the client API.
    pub client_entries: usize,
    pub client_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SessionConfig {
    pub timeout: Span,
    /// Concurrent sessions of one identity.
    pub per_identity: usize,
    /// Concurrent service sessions of one identity.
    pub services_per_identity: usize,
    /// Certificates of one session.
    pub certificates: usize,
    pub activity_interval: Span,
    pub activity_batch: usize,
    pub sweep_interval: Span,
    pub sweep_batch: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct EnrollmentConfig {
    pub identity_duration: Span,
    pub edge_router_duration: Span,
    pub keep_expired: Span,
    /// Whether router certificates may have names and addresses of `advertise`, or wildcards that
    /// cover one.
    pub routers_may_name_controller: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PasswordConfig {
    pub slots: usize,
    pub queue: usize,
    /// The scrypt cost: log2 of N, with r = 8 and p = 1.
    pub cost: u8,
    /// The number of identities whose wrong passwords are counted.
    pub remembered: usize,
    /// What the default auth policy of a new file says: `minPasswordLength`, `maxAttempts`,
    /// `lockoutDurationMinutes`.
    pub min_length: i64,
    pub max_attempts: i64,
    pub lockout_minutes: i64,
    /// The longest lockout of those that follow one another.
    pub max_lockout_minutes: i64,
}

/// Limits for wrong one-time codes of one identity; beyond them codes are rejected unchecked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CodeConfig {
    /// In one session.
    pub wrong_per_5_minutes: usize,
    /// From one network; half as many in one session.
    pub wrong_per_day: usize,
    /// From all networks from which no correct code came.
    pub wrong_per_day_in_all: usize,
    /// The number of identities whose wrong codes are counted.
    pub remembered: usize,
}

/// Tokens of external signers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TokenConfig {
    pub max_bytes: usize,
    /// How far a signer's clock may be ahead of the controller's.
    pub ahead: Span,
}

/// Fetching and caching the key sets of external signers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct KeySetConfig {
    /// The time limit of one whole fetch.
    pub timeout: Span,
    pub max_bytes: u64,
    /// The maximum number of keys in one set.
    pub max_keys: usize,
    /// The minimum time between two fetches for one signer, and after a failed one.
    pub pause: Span,
    pub pause_after_failure: Span,
    /// A set older than this is fetched again.
    pub refresh: Span,
    /// A set older than this is not used.
    pub lifetime: Span,
    /// The maximum number of concurrent fetches.
    pub fetches: usize,
    /// The maximum number of requests that wait for the set of one signer at the same time.
    pub waiting: usize,
    /// The maximum number of key sets in memory.
    pub kept: usize,
    /// Whether an endpoint may be an http URL of another host.
    pub allow_http: bool,
}

/// Bounds of what endpoints report about themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PostureConfig {
    /// Of one text in an answer.
    pub max_text_bytes: usize,
    /// Answers about processes kept per identity.
    pub processes: usize,
    /// How often answers are written to the data file.
    pub write_interval: Span,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StoreConfig {
    pub cache_mib: usize,
    pub group: usize,
    pub queue: usize,
    /// Concurrent long reads.
    pub scans: usize,
    pub scan_queue: usize,
    pub compact_at_start: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HistoryConfig {
    pub max_age: Span,
    pub max_mib: u64,
    /// Of log-ins, log-outs, refusals, connections, and what clients change of their own; as
    /// `max_age` and `max_mib` if unset.
    pub sessions_max_age: Option<Span>,
    #[serde(deserialize_with = "value::optional_whole")]
    pub sessions_max_mib: Option<u64>,
    /// Concurrent connections to the event streams.
    pub readers: usize,
}

impl HistoryConfig {
    /// How old and how large, in MiB, the rows that clients cause may become.
    pub fn of_sessions(&self) -> (Span, u64) {
        (
            self.sessions_max_age.unwrap_or(self.max_age),
            self.sessions_max_mib.unwrap_or(self.max_mib),
        )
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Snapshots {
    /// `None`: no automatic snapshots.
    pub directory: Option<PathBuf>,
    pub interval: Span,
    pub keep: usize,
    /// Older ones are removed, except the newest.
    pub keep_for: Span,
    /// A program and its arguments; the path of the snapshot follows. Empty: none.
    pub after: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Integrity {
    /// From the start of one scrub to the start of the next.
    pub scrub_interval: Span,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MetricsConfig {
    /// None: no listener.
    #[serde(deserialize_with = "value::optional_socket")]
    pub listen: Option<SocketAddr>,
}

impl Config {
    /// The addresses that clients connect to, the preferred one first: those of `advertise`, or
    /// else the listening addresses with their real ports. Never empty.
    pub fn advertised(&self, bound: &[SocketAddr]) -> Vec<Address> {
        if self.advertise.is_empty() {
            bound.iter().copied().map(Address::from).collect()
        } else {
            self.advertise.clone()
        }
    }

    /// The address that clients of the built-in router connect to: `router.advertise`, or else the
    /// first of [`Config::advertised`]. `own` is the socket that only the router listens on, if
    /// any: then its port is used, and also its address if `advertise` is empty and the socket is
    /// not bound to every address.
    pub fn router_address(&self, bound: SocketAddr, own: Option<SocketAddr>) -> Address {
        let first = || {
            self.advertise
                .first()
                .cloned()
                .unwrap_or_else(|| bound.into())
        };
        let derived = || match own {
            Some(own) if self.advertise.is_empty() && !own.ip().is_unspecified() => own.into(),
            Some(own) => first().at(own.port()),
            None => first(),
        };
        self.router.advertise.clone().unwrap_or_else(derived)
    }

    /// The administrator's first password from `admin-password-file`, if set.
    pub fn admin_password(&self) -> Result<Option<Zeroizing<String>>, InvalidValue> {
        password("admin-password-file", self.admin_password_file.as_deref())
    }

    /// The passphrase from `passphrase-file`, if set.
    pub fn passphrase(&self) -> Result<Option<Passphrase>, InvalidValue> {
        passphrase("passphrase-file", self.passphrase_file.as_deref())
    }
}

/// Reads the configuration again from the same sources.
pub type Reread = Box<dyn Fn() -> Result<Config, ConfigError> + Send>;
