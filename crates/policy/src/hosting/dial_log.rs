//! The outcome of dials by service and host: how often the last ones failed, and why. Bounded in
//! entries and bytes.

use std::{collections::BTreeMap, sync::Arc};

use model::clock::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::table::HostKey;

/// Maximum pairs of service and host. The oldest of the host with most pairs is forgotten first, so
/// that no host displaces all others.
const MAX_PAIRS: usize = 1000;
/// Maximum reasons of a pair. The oldest is forgotten first.
const MAX_REASONS: usize = 4;
/// Maximum characters of a reason.
const MAX_TEXT: usize = 200;

/// Why an attempt to reach a host failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DialFault {
    /// The host did not answer in time.
    Timeout,
    /// The host, or what it forwards to, refused.
    Refused,
    /// The host has left meanwhile.
    Left,
    /// The host takes nothing more at present.
    Busy,
    /// Nobody hosts the service.
    NoHost,
    /// A router or link on the way is not connected, or was lost.
    Path,
    /// The host offers no key although the service requires encryption.
    Encryption,
    #[default]
    Other,
}

impl DialFault {
    /// All reasons.
    pub(crate) const ALL: [Self; 8] = [
        Self::Timeout,
        Self::Refused,
        Self::Left,
        Self::Busy,
        Self::NoHost,
        Self::Path,
        Self::Encryption,
        Self::Other,
    ];

    /// The word in the API and the metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Left => "left",
            Self::Busy => "busy",
            Self::NoHost => "no-host",
            Self::Path => "path",
            Self::Encryption => "encryption",
            Self::Other => "other",
        }
    }
}

/// The failed dials of a service at one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedDials {
    /// `None`: no host was found.
    pub host: Option<HostKey>,
    /// The router of the last attempt.
    pub router: String,
    /// How many have failed since the last one that succeeded, or since the host bound anew.
    pub failures: u64,
    /// The first of these, or of those before them.
    pub first: Timestamp,
    pub last: Timestamp,
    /// When a dial succeeded after failures; `None` if none did.
    pub succeeded: Option<Timestamp>,
    /// The last reasons, the newest first.
    pub reasons: Vec<DialReason>,
}

/// A reason for which dials failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DialReason {
    /// The kind of reason.
    pub(crate) fault: DialFault,
    /// What the host or a router said, at most 200 characters of it.
    pub(crate) text: String,
    /// How often it was given.
    pub(crate) times: u64,
    /// The last time.
    pub(crate) last: Timestamp,
}

/// A service and its host.
type Pair = (Arc<str>, Option<HostKey>);

/// The pairs of service and host with failed dials.
#[derive(Default)]
pub(super) struct DialLog {
    pairs: BTreeMap<Pair, FailedDials>,
}

impl DialLog {
    pub(super) fn note_failure(
        &mut self,
        service: &str,
        host: Option<HostKey>,
        router: &str,
        fault: DialFault,
        text: &str,
        at: Timestamp,
    ) {
        let pair = (Arc::from(service), host);
        if !self.pairs.contains_key(&pair) {
            if self.pairs.len() >= MAX_PAIRS {
                self.forget_one();
            }
            let host = pair.1.clone();
            let new = FailedDials {
                host,
                router: String::new(),
                failures: 0,
                first: at,
                last: at,
                succeeded: None,
                reasons: Vec::new(),
            };
            self.pairs.insert(pair.clone(), new);
        }
        let Some(known) = self.pairs.get_mut(&pair) else {
            return;
        };
        if known.failures == 0 {
            (known.first, known.succeeded) = (at, None);
        }
        known.failures += 1;
        known.last = at;
        router.clone_into(&mut known.router);
        let text: String = text.chars().take(MAX_TEXT).collect();
        match known
            .reasons
            .iter()
            .position(|reason| reason.fault == fault && reason.text == text)
        {
            Some(place) => {
                let mut reason = known.reasons.remove(place);
                (reason.times, reason.last) = (reason.times + 1, at);
                known.reasons.insert(0, reason);
            }
            None => {
                known.reasons.truncate(MAX_REASONS - 1);
                known.reasons.insert(
                    0,
                    DialReason {
                        fault,
                        text,
                        times: 1,
                        last: at,
                    },
                );
            }
        }
    }

    /// Forgets the oldest pair of the host with most pairs.
    fn forget_one(&mut self) {
        let mut pairs_of = BTreeMap::<&Option<HostKey>, (usize, Timestamp, &Pair)>::new();
        for (pair, known) in &self.pairs {
            let of = pairs_of.entry(&pair.1).or_insert((0, known.last, pair));
            of.0 += 1;
            if known.last < of.1 {
                (of.1, of.2) = (known.last, pair);
            }
        }
        let oldest = pairs_of
            .into_values()
            .max_by_key(|(count, ..)| *count)
            .map(|(_, _, pair)| pair.clone());
        oldest.map(|pair| self.pairs.remove(&pair));
    }

    pub(super) fn note_success(
        &mut self,
        service: &str,
        host: &HostKey,
        at: impl Fn() -> Timestamp,
    ) {
        if self.pairs.is_empty() {
            return;
        }
        for host in [Some(host.clone()), None] {
            if let Some(known) = self
                .pairs
                .get_mut(&(Arc::from(service), host))
                .filter(|known| known.failures > 0)
            {
                (known.failures, known.succeeded) = (0, Some(at()));
            }
        }
    }

    /// A host has bound a service anew: dials before that say nothing about it.
    pub(super) fn note_renewal(&mut self, service: &str, host: &HostKey) {
        for host in [Some(host.clone()), None] {
            if let Some(known) = self.pairs.get_mut(&(Arc::from(service), host)) {
                known.failures = 0;
            }
        }
    }

    pub(super) fn forget(&mut self, service: &str) {
        self.pairs.retain(|(of, _), _| **of != *service);
    }

    /// The failed dials of a service, the last one first.
    pub(super) fn of_service(&self, service: &str) -> Vec<FailedDials> {
        let from: Pair = (service.into(), None);
        let mut found: Vec<_> = self
            .pairs
            .range(from..)
            .take_while(|((of, _), _)| **of == *service)
            .map(|(_, known)| known.clone())
            .collect();
        found.sort_by_key(|known| std::cmp::Reverse(known.last));
        found
    }

    /// Whether the last dial of a host failed.
    pub(super) fn fails(&self, service: &str, host: &HostKey) -> bool {
        self.pairs
            .get(&(Arc::from(service), Some(host.clone())))
            .is_some_and(|known| known.failures > 0)
    }

    /// The services with a host whose last dial failed.
    pub(super) fn failing_services(&self) -> Vec<Arc<str>> {
        let failing = self
            .pairs
            .iter()
            .filter(|((_, host), known)| host.is_some() && known.failures > 0);
        let mut services: Vec<Arc<str>> =
            failing.map(|((service, _), _)| service.clone()).collect();
        services.dedup();
        services
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str) -> HostKey {
        HostKey::Identity(name.into())
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_seconds(second)
    }

    #[test]
    fn failures_count_until_a_success() {
        let mut log = DialLog::default();
        let bob = identity("bob");
        log.note_failure(
            "wiki",
            Some(bob.clone()),
            "r",
            DialFault::Timeout,
            "slow",
            at(1),
        );
        log.note_failure(
            "wiki",
            Some(bob.clone()),
            "r",
            DialFault::Timeout,
            "slow",
            at(2),
        );
        log.note_failure("wiki", None, "", DialFault::NoHost, "nobody", at(3));
        let found = log.of_service("wiki");
        assert_eq!(
            (
                found.len(),
                found[1].failures,
                found[1].first,
                found[1].last
            ),
            (2, 2, at(1), at(2))
        );
        assert!(
            log.fails("wiki", &bob)
                && !log.fails("wiki", &identity("ann"))
                && !log.fails("git", &bob)
        );
        log.note_success("wiki", &bob, || at(4));
        let found = log.of_service("wiki");
        assert!(
            !log.fails("wiki", &bob)
                && found
                    .iter()
                    .all(|known| known.failures == 0 && known.succeeded == Some(at(4)))
        );
        assert_eq!(found[1].reasons[0].times, 2, "the reasons stay");
        log.note_failure(
            "wiki",
            Some(bob.clone()),
            "r",
            DialFault::Refused,
            "no",
            at(5),
        );
        assert_eq!(log.of_service("wiki")[0].first, at(5));
        log.note_renewal("wiki", &bob);
        assert!(!log.fails("wiki", &bob) && log.failing_services().is_empty());
        log.forget("wiki");
        assert!(log.of_service("wiki").is_empty());
    }

    #[test]
    fn reasons_and_pairs_are_bounded() {
        let mut log = DialLog::default();
        for second in 0..10 {
            log.note_failure(
                "wiki",
                Some(identity("bob")),
                "r",
                DialFault::Refused,
                &format!("{second}{}", "é".repeat(1000)),
                at(second),
            );
        }
        let [known] = &log.of_service("wiki")[..] else {
            panic!()
        };
        assert!(
            known.failures == 10
                && known.reasons.len() == MAX_REASONS
                && known.reasons[0].last == at(9)
        );
        assert!(
            known
                .reasons
                .iter()
                .all(|reason| reason.text.chars().count() == MAX_TEXT)
        );
        for second in 0..MAX_PAIRS as i64 + 100 {
            log.note_failure(
                &format!("service {second}"),
                Some(identity("flood")),
                "r",
                DialFault::Refused,
                "no",
                at(100 + second),
            );
        }
        assert_eq!(log.pairs.len(), MAX_PAIRS);
        assert!(
            log.fails("wiki", &identity("bob")),
            "one host displaces only its own"
        );
        assert!(
            log.of_service("service 0").is_empty() && !log.of_service("service 1000").is_empty()
        );
    }
}
