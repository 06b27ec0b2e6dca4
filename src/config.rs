//! What an operator can set: every key with its default and its bounds, and the kinds of value they are written in.
//!
//! Not here: what a key means and when to change it (`controller.toml` in the top level of the project; a test holds it
//! against this file), and how flags, variables and the file are put on top of one another (`cli/run.rs`).
//! Start with `Config`, its `Default` and `Config::check`.
//!
//! Invariant: a key is a field here and nowhere else; its name in the file and its variable follow from the field's name.

use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

/// The whole configuration of a controller. Paths that are not absolute start at the working directory.
#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Config {
    pub data: PathBuf,
    /// Port 0 lets the system choose one.
    #[serde(deserialize_with = "socket")]
    pub listen: SocketAddr,
    /// As given; `Config::advertised` knows what stands in when there is none.
    #[serde(deserialize_with = "addresses")]
    pub advertise: Vec<Address>,
    /// Read by `Config::admin_password`, and only when there is no administrator yet.
    pub admin_password_file: Option<PathBuf>,
    pub tls: Tls,
    pub log: Log,
    pub http: Http,
    pub sessions: Sessions,
    pub enrollment: Enrollment,
    pub passwords: Passwords,
    pub codes: Codes,
    pub key_sets: KeySets,
    pub store: Store,
    pub history: History,
    pub snapshots: Snapshots,
    pub integrity: Integrity,
}

/// The listener's certificate, if it is not to be our own. Both or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Tls {
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Log {
    /// A level, or the filter syntax of tracing-subscriber: `info,overkeep::store=debug`.
    pub level: String,
    pub format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Text on a terminal, JSON otherwise.
    Auto,
    Text,
    Json,
}

#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Http {
    /// Exact origins, or `*` alone; none means that only pages of our own origin get in.
    pub cors_origins: Vec<String>,
    pub request_timeout: Span,
    pub client_timeout: Span,
    pub handshake_timeout: Span,
    pub keep_alive: Span,
    pub unread_timeout: Span,
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

#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Sessions {
    pub timeout: Span,
    /// Sessions of one identity at the same time.
    pub per_identity: usize,
    pub activity_interval: Span,
    pub activity_batch: usize,
    pub sweep_interval: Span,
    pub sweep_batch: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Enrollment {
    pub identity_duration: Span,
    pub edge_router_duration: Span,
    pub keep_expired: Span,
}

#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Passwords {
    pub slots: usize,
    pub queue: usize,
    /// The scrypt cost: log2 of N, with r = 8 and p = 1.
    pub cost: u8,
}

/// Wrong one-time codes of one identity, above which none is looked at.
#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Codes {
    pub wrong_per_5_minutes: usize,
    pub wrong_per_day: usize,
}

/// The fetched key sets of external signers.
#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct KeySets {
    /// For one fetch in all.
    pub timeout: Span,
    pub max_bytes: u64,
    /// The least time between two fetches of one signer, and after one that failed.
    pub pause: Span,
    pub pause_after_failure: Span,
    /// Older than this, a set is fetched anew.
    pub refresh: Span,
    /// Older than this, a set does not count.
    pub lifetime: Span,
    /// Fetches at the same time.
    pub fetches: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
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

#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct History {
    pub max_age: Span,
    pub max_mib: u64,
    /// Connections to the events at the same time.
    pub readers: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Snapshots {
    /// None: no snapshots are made by themselves.
    pub directory: Option<PathBuf>,
    pub interval: Span,
    pub keep: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Integrity {
    /// From the beginning of one look at everything to the next.
    pub scrub_interval: Span,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            data: PathBuf::from("overkeep.redb"),
            listen: SocketAddr::from(([127, 0, 0, 1], 1280)),
            advertise: Vec::new(),
            admin_password_file: None,
            tls: Tls::default(),
            log: Log { level: "info".into(), format: Format::Auto },
            http: Http {
                cors_origins: vec!["*".into()],
                request_timeout: Span::seconds(10),
                client_timeout: Span::seconds(5),
                handshake_timeout: Span::seconds(5),
                keep_alive: Span::seconds(60),
                unread_timeout: Span::seconds(30),
                max_connections: 20_000,
                max_handshakes: 4096,
                max_requests: 2048,
                max_head_bytes: 65_536,
                max_body_bytes: 1 << 20,
                max_open_body_bytes: 65_536,
                workers: 0,
            },
            sessions: Sessions {
                timeout: Span::minutes(30),
                per_identity: 25_000,
                activity_interval: Span::seconds(90),
                activity_batch: 250,
                sweep_interval: Span::seconds(5),
                sweep_batch: 500,
            },
            enrollment: Enrollment {
                identity_duration: Span::minutes(180),
                edge_router_duration: Span::minutes(180),
                keep_expired: Span::minutes(30 * 24 * 60),
            },
            passwords: Passwords { slots: 1, queue: 64, cost: 14 },
            codes: Codes { wrong_per_5_minutes: 20, wrong_per_day: 100 },
            key_sets: KeySets {
                timeout: Span::seconds(3),
                max_bytes: 256 << 10,
                pause: Span::seconds(1),
                pause_after_failure: Span::seconds(5),
                refresh: Span::seconds(60),
                lifetime: Span::minutes(5),
                fetches: 32,
            },
            store: Store { cache_mib: 64, group: 256, queue: 1024, scans: 2, scan_queue: 32, compact_at_start: true },
            history: History { max_age: Span::minutes(365 * 24 * 60), max_mib: 64, readers: 16 },
            snapshots: Snapshots { directory: None, interval: Span::minutes(24 * 60), keep: 7 },
            integrity: Integrity { scrub_interval: Span::minutes(24 * 60) },
        }
    }
}

impl Config {
    /// Whether every value is within its bounds.
    pub fn check(&self) -> Result<(), Broken> {
        let first = self.rules().into_iter().find_map(|rule| Some(Broken { key: rule.key, reason: rule.problem? }));
        first.map_or(Ok(()), Err)
    }

    /// The bounds of a key, such as `1m to 365d`, if it has any.
    pub fn bounds(key: &str) -> Option<String> {
        Config::default().rules().into_iter().find(|rule| rule.key == key)?.bounds
    }

    /// What must hold. `controller.toml` repeats the bounds for people; a test tries both sides of each.
    fn rules(&self) -> Vec<Rule> {
        let (second, minute, hour, year) = (Span::seconds(1), Span::minutes(1), Span::minutes(60), Span::minutes(365 * 24 * 60));
        let Config { log, http, sessions, enrollment, passwords, codes, key_sets, store, history, snapshots, integrity, .. } = self;
        vec![
            rule("data", blank_path(&self.data)),
            rule("admin-password-file", self.admin_password_file.as_deref().and_then(blank_path)),
            rule("listen", self.unreachable()),
            rule("tls.certificate", alone(&self.tls.certificate, &self.tls.key, "tls.key")),
            rule("tls.key", alone(&self.tls.key, &self.tls.certificate, "tls.certificate")),
            rule("log.level", filter_problem(&log.level)),
            rule("http.cors-origins", origins_problem(&http.cors_origins)),
            within("http.request-timeout", http.request_timeout, second..=Span::minutes(10)),
            within("http.client-timeout", http.client_timeout, second..=Span::minutes(10)),
            within("http.handshake-timeout", http.handshake_timeout, second..=minute),
            within("http.keep-alive", http.keep_alive, second..=hour),
            within("http.unread-timeout", http.unread_timeout, second..=Span::minutes(10)),
            within("http.max-connections", http.max_connections, 16..=1_000_000),
            within("http.max-handshakes", http.max_handshakes, 16..=1_000_000),
            within("http.max-requests", http.max_requests, 16..=65_536),
            within("http.max-head-bytes", http.max_head_bytes, 8192..=131_072),
            within("http.max-body-bytes", http.max_body_bytes, 16_384..=67_108_864),
            within("http.max-open-body-bytes", http.max_open_body_bytes, 16_384..=67_108_864),
            within("http.workers", http.workers, 0..=256),
            within("sessions.timeout", sessions.timeout, minute..=year),
            within("sessions.per-identity", sessions.per_identity, 1..=10_000_000),
            within("sessions.activity-interval", sessions.activity_interval, second..=hour),
            within("sessions.activity-batch", sessions.activity_batch, 1..=10_000),
            within("sessions.sweep-interval", sessions.sweep_interval, second..=hour),
            within("sessions.sweep-batch", sessions.sweep_batch, 1..=10_000),
            within("enrollment.identity-duration", enrollment.identity_duration, Span::minutes(5)..=year),
            within("enrollment.edge-router-duration", enrollment.edge_router_duration, Span::minutes(5)..=year),
            within("enrollment.keep-expired", enrollment.keep_expired, hour..=year),
            within("passwords.slots", passwords.slots, 1..=2),
            within("passwords.queue", passwords.queue, 1..=1000),
            within("passwords.cost", passwords.cost, 10..=17),
            within("codes.wrong-per-5-minutes", codes.wrong_per_5_minutes, 3..=1000),
            within("codes.wrong-per-day", codes.wrong_per_day, 3..=1000),
            within("key-sets.timeout", key_sets.timeout, second..=minute),
            within("key-sets.max-bytes", key_sets.max_bytes, 1024..=16_777_216),
            within("key-sets.pause", key_sets.pause, second..=hour),
            within("key-sets.pause-after-failure", key_sets.pause_after_failure, second..=hour),
            within("key-sets.refresh", key_sets.refresh, second..=hour),
            within("key-sets.lifetime", key_sets.lifetime, second..=Span::minutes(24 * 60)),
            within("key-sets.fetches", key_sets.fetches, 1..=1000),
            within("store.cache-mib", store.cache_mib, 1..=65_536),
            within("store.group", store.group, 1..=4096),
            within("store.queue", store.queue, 1..=65_536),
            within("store.scans", store.scans, 1..=64),
            within("store.scan-queue", store.scan_queue, 1..=65_536),
            within("history.max-age", history.max_age, hour..=Span::minutes(3650 * 24 * 60)),
            within("history.max-mib", history.max_mib, 1..=65_536),
            within("history.readers", history.readers, 1..=1000),
            rule("snapshots.directory", snapshots.directory.as_deref().and_then(blank_path)),
            within("snapshots.interval", snapshots.interval, minute..=year),
            within("snapshots.keep", snapshots.keep, 1..=10_000),
            within("integrity.scrub-interval", integrity.scrub_interval, minute..=year),
        ]
    }

    /// Where clients are sent, the first before the others: what `advertise` says, or else the address that is listened on, with its real
    /// port. Never empty.
    pub fn advertised(&self, bound: SocketAddr) -> Vec<Address> {
        if self.advertise.is_empty() { vec![bound.into()] } else { self.advertise.clone() }
    }

    /// The administrator's first password out of `admin-password-file`, if one is named. One line end behind it is not
    /// part of it, everything else is. Never show it; the reason of a refusal does not.
    pub fn admin_password(&self) -> Result<Option<String>, Broken> {
        let Some(path) = &self.admin_password_file else { return Ok(None) };
        let refusal = |reason: String| Broken { key: "admin-password-file", reason: format!("{}: {reason}", path.display()) };
        let text = std::fs::read_to_string(path).map_err(|error| refusal(error.to_string()))?;
        let password = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(&text);
        if !(5..=100).contains(&password.chars().count()) {
            return Err(refusal("a password has 5 to 100 characters".into()));
        }
        Ok(Some(password.into()))
    }

    /// Clients are told where to go by `advertise`; "every address" is a place to listen on, not one to go to.
    fn unreachable(&self) -> Option<String> {
        (self.advertise.is_empty() && self.listen.ip().is_unspecified())
            .then(|| format!("{} is every address of this host; say with advertise which HOST:PORT clients reach it at", self.listen))
    }
}

/// A value that may not be what it is: its key, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct Broken {
    pub key: &'static str,
    pub reason: String,
}

/// What must hold for a key, and what is wrong if it does not.
struct Rule {
    key: &'static str,
    bounds: Option<String>,
    problem: Option<String>,
}

fn rule(key: &'static str, problem: Option<String>) -> Rule {
    Rule { key, bounds: None, problem }
}

fn within<T: PartialOrd + Display>(key: &'static str, value: T, bounds: RangeInclusive<T>) -> Rule {
    let text = format!("{} to {}", bounds.start(), bounds.end());
    let problem = (!bounds.contains(&value)).then(|| format!("{value} is not within {text}"));
    Rule { key, bounds: Some(text), problem }
}

fn blank_path(path: &Path) -> Option<String> {
    path.to_str().is_some_and(|text| text.trim().is_empty()).then(|| "the path is blank".into())
}

/// What is wrong with a path that is of use only together with another one, which `other` sets.
fn alone(path: &Option<PathBuf>, needed: &Option<PathBuf>, other: &str) -> Option<String> {
    let path = path.as_deref()?;
    blank_path(path).or_else(|| needed.is_none().then(|| format!("{} is of use only together with {other}", path.display())))
}

/// `EnvFilter` takes a word that is no level for the name of a target and then shows nothing else: a mistyped level
/// would silence the log. So a target needs its `=level` here.
fn filter_problem(filter: &str) -> Option<String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let level = |word: &str| LEVELS.contains(&word.trim().to_ascii_lowercase().as_str());
    let plain = !filter.contains('[');
    let wrong = filter.split(',').find(|part| plain && !level(part.rsplit('=').next().unwrap_or_default()));
    if let Some(part) = wrong {
        return Some(format!("{part:?} is neither {} nor a filter such as info,overkeep::store=debug", LEVELS.join(", ")));
    }
    tracing_subscriber::EnvFilter::builder().parse(filter).err().map(|error| error.to_string())
}

/// Browsers send an origin as scheme, host and port without a path; anything else would never match and only look safe.
fn origins_problem(origins: &[String]) -> Option<String> {
    let exact = |origin: &str| {
        let (scheme, host) = origin.split_once("://").unwrap_or_default();
        let letter = |c: char| c.is_ascii_graphic() && !c.is_ascii_uppercase() && !"/?#@*,\"".contains(c);
        scheme.starts_with(|c: char| c.is_ascii_lowercase()) && !host.is_empty() && scheme.chars().all(letter) && host.chars().all(letter)
    };
    if let [any] = origins
        && any == "*"
    {
        return None;
    }
    let wrong = origins.iter().find(|origin| !exact(origin))?;
    Some(format!("{wrong:?} is not an origin such as https://console.example.org (lower case, no path); \"*\" stands alone"))
}

// What the values are made of.

/// A length of time, written as a whole number and a unit: `500ms`, `90s`, `30m`, `12h`, `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(Duration);

/// Smallest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl Span {
    pub const fn seconds(seconds: u64) -> Span {
        Span(Duration::from_secs(seconds))
    }

    pub const fn minutes(minutes: u64) -> Span {
        Span(Duration::from_secs(minutes.saturating_mul(60)))
    }

    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Span {
        Span(duration)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let unit = UNITS.iter().find(|(name, _)| *name == unit.trim_start());
        let millis = number.parse::<u64>().ok().zip(unit).and_then(|(number, (_, millis))| number.checked_mul(*millis));
        let refusal = || format!("{text:?} is not a duration: a whole number and ms, s, m, h or d, such as \"90s\"");
        millis.map(|millis| Span(Duration::from_millis(millis))).ok_or_else(refusal)
    }
}

/// In the largest unit that needs no fraction.
impl Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let (name, unit) = UNITS.into_iter().rev().find(|(_, unit)| millis >= *unit && millis % unit == 0).unwrap_or(("ms", 1));
        write!(out, "{}{name}", millis / unit)
    }
}

/// A host and a port that clients connect to. The host is a DNS name or an IP address, in lower case, without brackets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The host, if it is an IP address: a certificate names those differently from DNS names.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl From<SocketAddr> for Address {
    fn from(at: SocketAddr) -> Address {
        Address { host: at.ip().to_string(), port: at.port() }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let refusal = || format!("{text:?} is not HOST:PORT, such as overlay.example.org:1280 or [2001:db8::1]:1280");
        if let Ok(at) = text.parse::<SocketAddr>() {
            let usable = at.port() != 0 && !at.ip().is_unspecified();
            return if usable { Ok(at.into()) } else { Err(format!("{text:?} is not an address that clients can connect to")) };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(refusal)?;
        let port = port.parse().ok().filter(|port| *port != 0 && is_dns_name(host)).ok_or_else(refusal)?;
        Ok(Address { host: host.to_ascii_lowercase(), port })
    }
}

impl Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') { write!(out, "[{}]:{}", self.host, self.port) } else { write!(out, "{}:{}", self.host, self.port) }
    }
}

/// RFC 1123, section 2.1; a last label of digits only is a mistyped IP address.
fn is_dns_name(host: &str) -> bool {
    let label = |label: &str| {
        let inner = label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        (1..=63).contains(&label.len()) && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() <= 253 && host.split('.').all(label) && !last.chars().all(|c| c.is_ascii_digit())
}

// Reading and writing them as text.

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
        from.deserialize_any(Text("a duration with its unit, such as \"90s\"", PhantomData))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Address, D::Error> {
        from.deserialize_any(Text("HOST:PORT in quotes", PhantomData))
    }
}

/// As serde reads a `SocketAddr`, but with a refusal that shows how one is written.
fn socket<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    struct Listen(SocketAddr);
    impl FromStr for Listen {
        type Err = String;

        fn from_str(text: &str) -> Result<Listen, String> {
            text.parse()
                .map(Listen)
                .map_err(|_| format!("{text:?} is not ADDRESS:PORT, such as 127.0.0.1:1280 or [::]:1280; names are not taken here"))
        }
    }
    from.deserialize_any(Text::<Listen>("ADDRESS:PORT in quotes", PhantomData)).map(|listen| listen.0)
}

/// A list, or one text with commas between the addresses, as flags are written.
fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Address>, D::Error> {
    struct Addresses;
    impl<'de> Visitor<'de> for Addresses {
        type Value = Vec<Address>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str("HOST:PORT in quotes, or a list of them")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<Address>, E> {
            text.split(',').map(|address| address.trim().parse().map_err(E::custom)).collect()
        }

        fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Address>, A::Error> {
            std::iter::from_fn(|| list.next_element().transpose()).collect()
        }
    }
    from.deserialize_any(Addresses)
}

/// Reads a value from its text; holds the words for what is expected where something else stands.
struct Text<T>(&'static str, PhantomData<T>);

impl<T: FromStr<Err = String>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}
