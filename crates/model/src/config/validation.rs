//! The bounds of each key, and the error for a value outside.
//!
//! Not here: the syntax of values (`value.rs`), which is checked while they are parsed. Start with
//! `Config::check`. Invariant: the error names the key of the first broken rule.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::{Config, InvalidValue, Span};

impl Config {
    /// Checks that every value is within its bounds.
    pub fn check(&self) -> Result<(), InvalidValue> {
        let first = self.rules().into_iter().find_map(|rule| {
            Some(InvalidValue {
                key: rule.key,
                reason: rule.problem?,
            })
        });
        first.map_or(Ok(()), Err)
    }

    /// The bounds of a key, such as `1m to 365d`; `None` if it has none.
    pub fn bounds(key: &str) -> Option<String> {
        Config::default()
            .rules()
            .into_iter()
            .find(|rule| rule.key == key)?
            .bounds
    }

    /// The rules of all keys. `controller.toml` repeats the bounds for people; a test tries both
    /// sides of each.
    fn rules(&self) -> Vec<Rule> {
        let (second, minute, hour, year) = (
            Span::seconds(1),
            Span::minutes(1),
            Span::minutes(60),
            Span::minutes(365 * 24 * 60),
        );
        let Config {
            log,
            http,
            members,
            sessions,
            enrollment,
            passwords,
            codes,
            tokens,
            key_sets,
            ..
        } = self;
        let Config {
            posture,
            router,
            routers,
            store,
            history,
            snapshots,
            integrity,
            ..
        } = self;
        vec![
            rule("data", blank_path(&self.data)),
            rule(
                "admin-password-file",
                self.admin_password_file.as_deref().and_then(blank_path),
            ),
            rule(
                "passphrase-file",
                self.passphrase_file.as_deref().and_then(blank_path),
            ),
            rule("listen", self.unreachable()),
            rule(
                "tls.certificate",
                alone(&self.tls.certificate, &self.tls.key, "tls.key"),
            ),
            rule(
                "tls.key",
                alone(&self.tls.key, &self.tls.certificate, "tls.certificate"),
            ),
            rule("log.level", filter_problem(&log.level)),
            rule("http.cors-origins", origins_problem(&http.cors_origins)),
            within(
                "http.request-timeout",
                http.request_timeout,
                second..=Span::minutes(10),
            ),
            within(
                "http.client-timeout",
                http.client_timeout,
                second..=Span::minutes(10),
            ),
            within(
                "http.handshake-timeout",
                http.handshake_timeout,
                second..=minute,
            ),
            within("http.keep-alive", http.keep_alive, second..=hour),
            within(
                "http.unread-timeout",
                http.unread_timeout,
                second..=Span::minutes(10),
            ),
            within(
                "http.max-unread-bytes",
                http.max_unread_bytes,
                65_536..=1 << 30,
            ),
            within(
                "http.max-unread-bytes-total",
                http.max_unread_bytes_total,
                16 << 20..=1 << 40,
            ),
            within("http.max-streams", http.max_streams, 16..=1000),
            within("http.max-connections", http.max_connections, 16..=1_000_000),
            within("http.max-handshakes", http.max_handshakes, 16..=1_000_000),
            within("http.max-requests", http.max_requests, 16..=65_536),
            within("http.max-head-bytes", http.max_head_bytes, 8192..=131_072),
            within(
                "http.max-body-bytes",
                http.max_body_bytes,
                16_384..=67_108_864,
            ),
            within(
                "http.max-open-body-bytes",
                http.max_open_body_bytes,
                16_384..=67_108_864,
            ),
            within("http.workers", http.workers, 0..=256),
            within("members.entries", members.entries, 64..=1_000_000),
            within("members.bytes", members.bytes, 4096..=67_108_864),
            within("members.client-entries", members.client_entries, 8..=10_000),
            within("members.client-bytes", members.client_bytes, 512..=65_536),
            within("sessions.timeout", sessions.timeout, minute..=year),
            within(
                "sessions.per-identity",
                sessions.per_identity,
                1..=10_000_000,
            ),
            within(
                "sessions.services-per-identity",
                sessions.services_per_identity,
                1..=100_000_000,
            ),
            within("sessions.certificates", sessions.certificates, 4..=10_000),
            within(
                "sessions.activity-interval",
                sessions.activity_interval,
                second..=hour,
            ),
            within(
                "sessions.activity-batch",
                sessions.activity_batch,
                1..=10_000,
            ),
            within(
                "sessions.sweep-interval",
                sessions.sweep_interval,
                second..=hour,
            ),
            within("sessions.sweep-batch", sessions.sweep_batch, 1..=10_000),
            within(
                "enrollment.identity-duration",
                enrollment.identity_duration,
                Span::minutes(5)..=year,
            ),
            within(
                "enrollment.edge-router-duration",
                enrollment.edge_router_duration,
                Span::minutes(5)..=year,
            ),
            within(
                "enrollment.keep-expired",
                enrollment.keep_expired,
                hour..=year,
            ),
            within("passwords.slots", passwords.slots, 1..=2),
            within("passwords.queue", passwords.queue, 1..=1000),
            within("passwords.cost", passwords.cost, 10..=17),
            within(
                "passwords.remembered",
                passwords.remembered,
                1000..=10_000_000,
            ),
            within("passwords.min-length", passwords.min_length, 5..=100),
            within("passwords.max-attempts", passwords.max_attempts, 0..=1000),
            within(
                "passwords.lockout-minutes",
                passwords.lockout_minutes,
                0..=10_080,
            ),
            within(
                "passwords.max-lockout-minutes",
                passwords.max_lockout_minutes,
                0..=525_600,
            ),
            within(
                "codes.wrong-per-5-minutes",
                codes.wrong_per_5_minutes,
                3..=1000,
            ),
            within("codes.wrong-per-day", codes.wrong_per_day, 3..=1000),
            within(
                "codes.wrong-per-day-in-all",
                codes.wrong_per_day_in_all,
                3..=100_000,
            ),
            within("codes.remembered", codes.remembered, 1000..=10_000_000),
            within("tokens.max-bytes", tokens.max_bytes, 1024..=65_536),
            within("tokens.ahead", tokens.ahead, second..=Span::minutes(5)),
            within("key-sets.timeout", key_sets.timeout, second..=minute),
            within("key-sets.max-bytes", key_sets.max_bytes, 1024..=16_777_216),
            within("key-sets.max-keys", key_sets.max_keys, 1..=10_000),
            within("key-sets.pause", key_sets.pause, second..=hour),
            within(
                "key-sets.pause-after-failure",
                key_sets.pause_after_failure,
                second..=hour,
            ),
            within("key-sets.refresh", key_sets.refresh, second..=hour),
            within(
                "key-sets.lifetime",
                key_sets.lifetime,
                second..=Span::minutes(24 * 60),
            ),
            within("key-sets.fetches", key_sets.fetches, 1..=1000),
            within("key-sets.waiting", key_sets.waiting, 1..=65_536),
            within("key-sets.kept", key_sets.kept, 1..=100_000),
            within(
                "posture.max-text-bytes",
                posture.max_text_bytes,
                256..=65_536,
            ),
            within("posture.processes", posture.processes, 16..=65_536),
            within(
                "posture.write-interval",
                posture.write_interval,
                second..=hour,
            ),
            within(
                "router.max-circuit-kib",
                router.max_circuit_kib,
                64..=65_536,
            ),
            within("router.max-channel-mib", router.max_channel_mib, 1..=1024),
            within("router.max-total-mib", router.max_total_mib, 4..=65_536),
            within("router.max-message-mib", router.max_message_mib, 1..=64),
            within("router.max-binds", router.max_binds, 16..=1_000_000),
            within("router.max-circuits", router.max_circuits, 16..=10_000_000),
            within(
                "router.max-circuits-per-identity",
                router.max_circuits_per_identity,
                16..=10_000_000,
            ),
            within(
                "router.max-channels-per-identity",
                router.max_channels_per_identity,
                4..=1_000_000,
            ),
            within(
                "router.drain-timeout",
                router.drain_timeout,
                second..=minute,
            ),
            within(
                "routers.max-terminators",
                routers.max_terminators,
                16..=1_000_000,
            ),
            within(
                "routers.forget-after",
                routers.forget_after,
                Span::seconds(10)..=hour,
            ),
            within(
                "routers.reroute-timeout",
                routers.reroute_timeout,
                second..=minute,
            ),
            within("store.cache-mib", store.cache_mib, 1..=65_536),
            within("store.group", store.group, 1..=4096),
            within("store.queue", store.queue, 1..=65_536),
            within("store.scans", store.scans, 1..=64),
            within("store.scan-queue", store.scan_queue, 1..=65_536),
            within(
                "history.max-age",
                history.max_age,
                hour..=Span::minutes(3650 * 24 * 60),
            ),
            within("history.max-mib", history.max_mib, 1..=65_536),
            within_if_set(
                "history.sessions-max-age",
                history.sessions_max_age,
                hour..=Span::minutes(3650 * 24 * 60),
            ),
            within_if_set(
                "history.sessions-max-mib",
                history.sessions_max_mib,
                1..=65_536,
            ),
            within("history.readers", history.readers, 1..=1000),
            rule(
                "snapshots.directory",
                snapshots.directory.as_deref().and_then(blank_path),
            ),
            within("snapshots.interval", snapshots.interval, minute..=year),
            within("snapshots.keep", snapshots.keep, 1..=10_000),
            within(
                "snapshots.keep-for",
                snapshots.keep_for,
                hour..=Span::minutes(3650 * 24 * 60),
            ),
            rule("snapshots.after", blank_program(&snapshots.after)),
            within(
                "integrity.scrub-interval",
                integrity.scrub_interval,
                minute..=year,
            ),
        ]
    }

    /// `advertise` tells clients where to connect; the unspecified address cannot be connected to.
    fn unreachable(&self) -> Option<String> {
        let every = self
            .listen
            .addresses()
            .iter()
            .find(|address| self.advertise.is_empty() && address.ip().is_unspecified())?;
        Some(format!(
            "{every} listens on every address of this host; set advertise to the HOST:PORT at which clients reach it"
        ))
    }
}

/// The rule of a key, with the problem if it is broken.
struct Rule {
    key: &'static str,
    bounds: Option<String>,
    problem: Option<String>,
}

fn rule(key: &'static str, problem: Option<String>) -> Rule {
    Rule {
        key,
        bounds: None,
        problem,
    }
}

fn within<T: PartialOrd + Display>(key: &'static str, value: T, bounds: RangeInclusive<T>) -> Rule {
    let text = format!("{} to {}", bounds.start(), bounds.end());
    let problem = (!bounds.contains(&value)).then(|| format!("{value} is not within {text}"));
    Rule {
        key,
        bounds: Some(text),
        problem,
    }
}

fn within_if_set<T: PartialOrd + Display>(
    key: &'static str,
    value: Option<T>,
    bounds: RangeInclusive<T>,
) -> Rule {
    match value {
        Some(value) => within(key, value, bounds),
        None => Rule {
            key,
            bounds: Some(format!("{} to {}", bounds.start(), bounds.end())),
            problem: None,
        },
    }
}

fn blank_path(path: &Path) -> Option<String> {
    path.to_str()
        .is_some_and(|text| text.trim().is_empty())
        .then(|| "the path is blank".into())
}

fn blank_program(command: &[String]) -> Option<String> {
    command
        .first()
        .is_some_and(|program| program.trim().is_empty())
        .then(|| "the first text is the program, and it is blank".into())
}

/// The problem with a path that is only useful together with another key, `other`.
fn alone(path: &Option<PathBuf>, needed: &Option<PathBuf>, other: &str) -> Option<String> {
    let path = path.as_deref()?;
    blank_path(path).or_else(|| {
        needed.is_none().then(|| {
            format!(
                "{} is useful only together with {other}; set both or neither",
                path.display()
            )
        })
    })
}

/// `EnvFilter` reads a word that is not a level as a target and then shows nothing else: a mistyped
/// level would silence the log. So a target needs its `=level` here.
fn filter_problem(filter: &str) -> Option<String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let level = |word: &str| LEVELS.contains(&word.trim().to_ascii_lowercase().as_str());
    let plain = !filter.contains('[');
    let wrong = filter
        .split(',')
        .find(|part| plain && !level(part.rsplit('=').next().unwrap_or_default()));
    if let Some(part) = wrong {
        return Some(format!(
            "{part:?} is neither {} nor a filter such as info,overkeep_store=debug",
            LEVELS.join(", ")
        ));
    }
    tracing_subscriber::EnvFilter::builder()
        .parse(filter)
        .err()
        .map(|error| error.to_string())
}

/// Browsers send an origin as scheme, host and port without a path. Any other text never matches,
/// so the setting would have no effect.
fn origins_problem(origins: &[String]) -> Option<String> {
    let exact = |origin: &str| {
        let (scheme, host) = origin.split_once("://").unwrap_or_default();
        let letter =
            |c: char| c.is_ascii_graphic() && !c.is_ascii_uppercase() && !"/?#@*,\"".contains(c);
        scheme.starts_with(|c: char| c.is_ascii_lowercase())
            && !host.is_empty()
            && scheme.chars().all(letter)
            && host.chars().all(letter)
    };
    if let [any] = origins
        && any == "*"
    {
        return None;
    }
    let wrong = origins.iter().find(|origin| !exact(origin))?;
    Some(format!(
        "{wrong:?} is not an origin such as https://console.example.org (lower case, no path); \"*\" must be the only entry"
    ))
}
