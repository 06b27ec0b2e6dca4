//! What an operator can set: every key with its default.
//!
//! Not here: what a key means and when to change it (`controller.toml` in the top level of the project; a test holds it
//! against this room), and how flags, variables and the file are put on top of one another (`cli/run.rs`).
//! Start with `Config` and its `Default`; then `bounds.rs`, what must hold for each key, and `value.rs`, what a duration and
//! an address are and how they are written.
//!
//! Invariant: a key is a field here and nowhere else; its name in the file and its variable follow from the field's name.

mod bounds;
mod listen;
mod value;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use listen::Listen;
pub use value::{Address, Span};

use zeroize::Zeroizing;

use crate::pki::{Passphrase, secret_of};

/// The whole configuration of a controller. Paths that are not absolute start at the working directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Config {
    pub data: PathBuf,
    /// Port 0 lets the system choose one.
    pub listen: Listen,
    /// As given; `Config::advertised` knows what stands in when there is none.
    #[serde(deserialize_with = "value::addresses")]
    pub advertise: Vec<Address>,
    /// Read by `Config::admin_password`, and only when there is no administrator yet.
    pub admin_password_file: Option<PathBuf>,
    /// Read by `Config::passphrase`, whenever keys are needed.
    pub passphrase_file: Option<PathBuf>,
    pub tls: Tls,
    pub log: Log,
    pub http: Http,
    pub members: Members,
    pub sessions: Sessions,
    pub enrollment: Enrollment,
    pub passwords: Passwords,
    pub codes: Codes,
    pub tokens: Tokens,
    pub key_sets: KeySets,
    pub posture: Posture,
    pub router: Router,
    pub store: Store,
    pub history: History,
    pub snapshots: Snapshots,
    pub integrity: Integrity,
}

/// The listener's certificate, if it is not to be our own. Both or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tls {
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Log {
    /// A level, or the filter syntax of tracing-subscriber: `info,overkeep::store=debug`.
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
    /// Exact origins, or `*` alone; none means that only pages of our own origin get in.
    pub cors_origins: Vec<String>,
    pub request_timeout: Span,
    pub client_timeout: Span,
    pub handshake_timeout: Span,
    pub keep_alive: Span,
    pub unread_timeout: Span,
    /// Bytes of answers on one connection, and of whatever is held for clients on all connections together.
    pub max_unread_bytes: usize,
    pub max_unread_bytes_total: usize,
    /// Requests at the same time on one connection of HTTP/2.
    pub max_streams: usize,
    pub max_connections: usize,
    pub max_handshakes: usize,
    pub max_requests: usize,
    pub max_head_bytes: usize,
    pub max_body_bytes: usize,
    /// Where no session is needed to send one.
    pub max_open_body_bytes: usize,
    /// Threads that answer requests; 0 means one per core.
    pub workers: usize,
}

/// What one member may hold that requests fill as they like: `tags`, `appData`, `roleAttributes`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Members {
    pub entries: usize,
    pub bytes: usize,
    /// In what whoever uses services makes.
    pub client_entries: usize,
    pub client_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Sessions {
    pub timeout: Span,
    /// Sessions of one identity at the same time.
    pub per_identity: usize,
    /// Service sessions of one identity at the same time.
    pub services_per_identity: usize,
    /// Certificates of one session at the same time.
    pub certificates: usize,
    pub activity_interval: Span,
    pub activity_batch: usize,
    pub sweep_interval: Span,
    pub sweep_batch: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Enrollment {
    pub identity_duration: Span,
    pub edge_router_duration: Span,
    pub keep_expired: Span,
    /// Whether the certificates of routers may have names and addresses of `advertise`, or wildcards that cover one.
    pub routers_may_name_controller: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Passwords {
    pub slots: usize,
    pub queue: usize,
    /// The scrypt cost: log2 of N, with r = 8 and p = 1.
    pub cost: u8,
    /// Identities whose wrong passwords are counted.
    pub remembered: usize,
}

/// Wrong one-time codes for one identity, above which none is looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Codes {
    /// In one session.
    pub wrong_per_5_minutes: usize,
    /// From one network; half of them in one session.
    pub wrong_per_day: usize,
    /// From all networks from which no right code came.
    pub wrong_per_day_in_all: usize,
    /// Identities whose wrong codes are counted.
    pub remembered: usize,
}

/// Tokens of external signers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tokens {
    pub max_bytes: usize,
    /// Of a signer's clock, before ours.
    pub ahead: Span,
}

/// The fetched key sets of external signers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct KeySets {
    /// For one fetch in all.
    pub timeout: Span,
    pub max_bytes: u64,
    /// In one set.
    pub max_keys: usize,
    /// The least time between two fetches of one signer, and after one that failed.
    pub pause: Span,
    pub pause_after_failure: Span,
    /// Older than this, a set is fetched anew.
    pub refresh: Span,
    /// Older than this, a set does not count.
    pub lifetime: Span,
    /// Fetches at the same time.
    pub fetches: usize,
    /// Requests that wait for the set of one signer at the same time.
    pub waiting: usize,
    /// Sets in memory.
    pub kept: usize,
    /// Whether an endpoint may be an http address of another host.
    pub allow_http: bool,
}

/// What endpoints say of themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Posture {
    /// Of one text in an answer.
    pub max_text_bytes: usize,
    /// Answers about processes that are kept of one identity.
    pub processes: usize,
}

/// The built-in edge router. Sizes are of what waits in memory for clients to read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Router {
    pub enabled: bool,
    /// None: clients of the router connect to the same address as everybody.
    #[serde(deserialize_with = "value::optional_socket")]
    pub listen: Option<SocketAddr>,
    /// As given; `Config::router_address` knows what stands in when there is none.
    pub advertise: Option<Address>,
    /// Per circuit and direction.
    pub max_circuit_kib: usize,
    /// Per channel.
    pub max_channel_mib: usize,
    /// Of all channels.
    pub max_total_mib: usize,
    pub max_message_mib: usize,
    pub max_circuits: usize,
    /// How long clients have at a stop.
    pub drain_timeout: Span,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Store {
    pub cache_mib: usize,
    pub group: usize,
    pub queue: usize,
    /// Long reads at the same time.
    pub scans: usize,
    pub scan_queue: usize,
    pub compact_at_start: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct History {
    pub max_age: Span,
    pub max_mib: u64,
    /// Connections to the events at the same time.
    pub readers: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Snapshots {
    /// None: no snapshots are made by themselves.
    pub directory: Option<PathBuf>,
    pub interval: Span,
    pub keep: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Integrity {
    /// From the beginning of one look at everything to the next.
    pub scrub_interval: Span,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            data: PathBuf::from("overkeep.redb"),
            listen: SocketAddr::from(([127, 0, 0, 1], 1280)).into(),
            advertise: Vec::new(),
            admin_password_file: None,
            passphrase_file: None,
            tls: Tls::default(),
            log: Log { level: "info".into(), format: Format::Auto },
            http: Http {
                cors_origins: vec!["*".into()],
                request_timeout: Span::seconds(10),
                client_timeout: Span::seconds(5),
                handshake_timeout: Span::seconds(5),
                keep_alive: Span::seconds(60),
                unread_timeout: Span::seconds(30),
                max_unread_bytes: 8 << 20,
                max_unread_bytes_total: 128 << 20,
                max_streams: 128,
                max_connections: 20_000,
                max_handshakes: 4096,
                max_requests: 2048,
                max_head_bytes: 65_536,
                max_body_bytes: 1 << 20,
                max_open_body_bytes: 65_536,
                workers: 0,
            },
            members: Members { entries: 1000, bytes: 65_536, client_entries: 64, client_bytes: 4096 },
            sessions: Sessions {
                timeout: Span::minutes(30),
                per_identity: 25_000,
                services_per_identity: 100_000,
                certificates: 32,
                activity_interval: Span::seconds(90),
                activity_batch: 250,
                sweep_interval: Span::seconds(5),
                sweep_batch: 500,
            },
            enrollment: Enrollment {
                identity_duration: Span::minutes(180),
                edge_router_duration: Span::minutes(180),
                keep_expired: Span::minutes(30 * 24 * 60),
                routers_may_name_controller: false,
            },
            passwords: Passwords { slots: 1, queue: 64, cost: 14, remembered: 50_000 },
            codes: Codes { wrong_per_5_minutes: 20, wrong_per_day: 100, wrong_per_day_in_all: 300, remembered: 50_000 },
            tokens: Tokens { max_bytes: 16 << 10, ahead: Span::seconds(10) },
            key_sets: KeySets {
                timeout: Span::seconds(3),
                max_bytes: 256 << 10,
                max_keys: 100,
                pause: Span::seconds(1),
                pause_after_failure: Span::seconds(5),
                refresh: Span::seconds(60),
                lifetime: Span::minutes(5),
                fetches: 32,
                waiting: 256,
                kept: 1000,
                allow_http: false,
            },
            posture: Posture { max_text_bytes: 4096, processes: 256 },
            router: Router {
                enabled: true,
                listen: None,
                advertise: None,
                max_circuit_kib: 512,
                max_channel_mib: 16,
                max_total_mib: 64,
                max_message_mib: 16,
                max_circuits: 100_000,
                drain_timeout: Span::seconds(5),
            },
            store: Store { cache_mib: 64, group: 256, queue: 1024, scans: 2, scan_queue: 32, compact_at_start: true },
            history: History { max_age: Span::minutes(365 * 24 * 60), max_mib: 64, readers: 16 },
            snapshots: Snapshots { directory: None, interval: Span::minutes(24 * 60), keep: 7 },
            integrity: Integrity { scrub_interval: Span::minutes(24 * 60) },
        }
    }
}

impl Config {
    /// Where clients are sent, the first before the others: what `advertise` says, or else the addresses that are listened on, with their
    /// real ports. Never empty.
    pub fn advertised(&self, bound: &[SocketAddr]) -> Vec<Address> {
        if self.advertise.is_empty() { bound.iter().copied().map(Address::from).collect() } else { self.advertise.clone() }
    }

    /// Where clients of the built-in router are sent: what `router.advertise` says, or else the first of [`Config::advertised`]. `own` is
    /// the socket that only the router listens on, if there is one: its port stands in, and its address where `advertise` is empty and the
    /// socket is not that of every address.
    pub fn router_address(&self, bound: SocketAddr, own: Option<SocketAddr>) -> Address {
        let first = || self.advertise.first().cloned().unwrap_or_else(|| bound.into());
        let derived = || match own {
            Some(own) if self.advertise.is_empty() && !own.ip().is_unspecified() => own.into(),
            Some(own) => first().at(own.port()),
            None => first(),
        };
        self.router.advertise.clone().unwrap_or_else(derived)
    }

    /// The administrator's first password out of `admin-password-file`, if one is named.
    pub fn admin_password(&self) -> Result<Option<Zeroizing<String>>, Broken> {
        password("admin-password-file", self.admin_password_file.as_deref())
    }

    /// The passphrase out of `passphrase-file`, if one is named.
    pub fn passphrase(&self) -> Result<Option<Passphrase>, Broken> {
        passphrase("passphrase-file", self.passphrase_file.as_deref())
    }
}

/// The password in a file, if one is named, by `key`. One line end behind it is not part of it, everything else is. Never show it; the
/// reason of a refusal does not.
pub fn password(key: &'static str, file: Option<&Path>) -> Result<Option<Zeroizing<String>>, Broken> {
    secret(key, file, "password", 5..=100)
}

/// The passphrase in a file, if one is named, by `key`; what is part of it is as with a password.
pub fn passphrase(key: &'static str, file: Option<&Path>) -> Result<Option<Passphrase>, Broken> {
    Ok(secret(key, file, "passphrase", 8..=1000)?.map(Passphrase::from))
}

/// The text in a file, if one is named, without the line end behind it. It must have so many characters, and nobody but its owner may be
/// able to write the file.
fn secret(key: &'static str, path: Option<&Path>, what: &str, length: RangeInclusive<usize>) -> Result<Option<Zeroizing<String>>, Broken> {
    let Some(path) = path else { return Ok(None) };
    let refusal = |reason: String| Broken { key, reason: format!("{}: {reason}", path.display()) };
    let text = secret_of(path).map_err(|error| refusal(error.to_string()))?;
    let secret = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(&text);
    if !length.contains(&secret.chars().count()) {
        return Err(refusal(format!("a {what} has {} to {} characters", length.start(), length.end())));
    }
    Ok(Some(Zeroizing::new(secret.into())))
}

/// Reads the configuration once more, as the start did; a refusal is one line.
pub type Reread = Box<dyn Fn() -> Result<Config, String> + Send>;

/// A value that may not be what it is: its key, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct Broken {
    pub key: &'static str,
    pub reason: String,
}
