//! Limits the log lines that one peer causes, so that it cannot fill the log.

use std::{
    collections::HashMap,
    sync::LazyLock,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// The maximum number of lines about a peer in each [`PERIOD`].
const LINES: u64 = 60;
const PERIOD: Duration = Duration::from_secs(60);
/// The maximum number of peers that are counted. Beyond it the others share the last count.
const PEERS: usize = 10_000;
/// The shortest time between two searches for peers that can be forgotten, which look at all of
/// them.
const SWEEP: Duration = Duration::from_secs(1);

static COUNTS: LazyLock<Mutex<Counts>> = LazyLock::new(Mutex::default);

/// Whether a line about a peer may be written: a router by its id, or a network by its address. The
/// first line that may not is replaced by a warning that more are left out, and the next one of a
/// later period says how many were.
pub(crate) fn may_log(peer: &str) -> bool {
    let outcome = COUNTS.lock().count(peer, Instant::now());
    match outcome {
        Outcome::Write => true,
        Outcome::WriteAfter(left_out) => {
            tracing::warn!(peer, left_out, "log lines about a peer were left out");
            true
        }
        Outcome::LeaveOutFirst => {
            tracing::warn!(
                peer,
                "more than {LINES} log lines about a peer in a minute: more are left out until the minute ends"
            );
            false
        }
        Outcome::LeaveOut => false,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Write,
    /// With the number of lines that were left out before.
    WriteAfter(u64),
    LeaveOutFirst,
    LeaveOut,
}

#[derive(Default)]
struct Counts {
    peers: HashMap<String, (Instant, u64)>,
    swept: Option<Instant>,
}

impl Counts {
    fn count(&mut self, peer: &str, now: Instant) -> Outcome {
        let is_new = !self.peers.contains_key(peer);
        let is_due = self
            .swept
            .is_none_or(|swept| now.duration_since(swept) >= SWEEP);
        if is_new && self.peers.len() >= PEERS && is_due {
            self.swept = Some(now);
            self.peers
                .retain(|_, (began, _)| now.duration_since(*began) < PERIOD);
        }
        let peer = if is_new && self.peers.len() >= PEERS {
            ""
        } else {
            peer
        };
        let (began, lines) = self.peers.entry(peer.to_owned()).or_insert((now, 0));
        let left_out = lines.saturating_sub(LINES);
        let is_over = now.duration_since(*began) >= PERIOD;
        if is_over {
            (*began, *lines) = (now, 0);
        }
        *lines += 1;
        match *lines {
            1 if is_over && left_out > 0 => Outcome::WriteAfter(left_out),
            lines if lines <= LINES => Outcome::Write,
            lines if lines == LINES + 1 => Outcome::LeaveOutFirst,
            _ => Outcome::LeaveOut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_one_peer_are_bounded() {
        let (mut counts, now) = (Counts::default(), Instant::now());
        let outcomes: Vec<_> = (0..LINES + 10)
            .map(|_| counts.count("router", now))
            .collect();
        assert_eq!(
            outcomes
                .iter()
                .filter(|outcome| **outcome == Outcome::Write)
                .count() as u64,
            LINES
        );
        assert_eq!(
            outcomes
                .iter()
                .filter(|outcome| **outcome == Outcome::LeaveOutFirst)
                .count(),
            1
        );
        assert_eq!(counts.count("another", now), Outcome::Write);
        assert_eq!(
            counts.count("router", now + PERIOD),
            Outcome::WriteAfter(10)
        );
        assert_eq!(counts.count("router", now + PERIOD), Outcome::Write);
    }

    #[test]
    fn counted_peers_are_bounded() {
        let (mut counts, now) = (Counts::default(), Instant::now());
        for peer in 0..2 * PEERS {
            counts.count(&peer.to_string(), now);
        }
        assert!(counts.peers.len() <= PEERS + 1);
        assert_eq!(
            counts.count("one more", now),
            Outcome::LeaveOut,
            "they share a count"
        );
        assert_eq!(counts.count("one more", now + PERIOD), Outcome::Write);
        assert!(
            counts.peers.len() < 3,
            "those of the minute before are forgotten"
        );
    }
}
