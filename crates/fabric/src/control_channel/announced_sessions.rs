//! Which API sessions a connected router knows, and the full state that is being written to it.
//!
//! Routers keep what they are told until they are told otherwise. So that a router is told of the
//! end of exactly those API sessions that it knows, what it was told is recorded for each
//! connection.

use std::time::Duration;

use roaring::RoaringTreemap;
use tokio::time::Instant;

use super::channel_sessions::ChannelSessions;

/// After how long changes within the window of a full state are repeated.
///
/// A router 1.1.15 looks once a second whether a full state is complete, and then removes what is
/// not in it, up to the greatest id in it; everything, if it is empty. What it is told of between
/// the last part and this moment is removed, too, unless the id is greater, and circuits end with
/// it. A newer full state replaces one that it has not looked at. So while it may look, it is told
/// with another full state, unless that is too large or was sent too often; then what it may have
/// forgotten is repeated.
const REPETITIONS: [Duration; 3] = [
    Duration::from_secs(2),
    Duration::from_secs(8),
    Duration::from_secs(25),
];

/// How long after a full state the router may look at it.
const UNSEEN: Duration = Duration::from_secs(5);
/// Maximum API sessions of a full state that is written again.
const MAX_AGAIN: u64 = 1000;
/// Maximum full states that are written again on a connection, or after a full state that the
/// router requested.
const MAX_STATES: usize = 16;

/// What a router was told on a connection. API sessions are given by their rows.
#[derive(Default)]
pub(crate) struct AnnouncedSessions {
    told: RoaringTreemap,
    /// What is still to be written of a full state.
    coming: RoaringTreemap,
    /// Whether the first full state was started.
    has_begun: bool,
    /// Whether a full state was started and its last part is not written.
    is_in_state: bool,
    window: Option<Window>,
    /// How often a full state was written again.
    again: usize,
    /// When a request of the router for a full state was last granted.
    requested: Option<Instant>,
}

/// The time after a full state in which a router may forget what it is told.
struct Window {
    began: Instant,
    /// The greatest id in the full state.
    greatest: String,
    /// What the router may forget.
    rows: RoaringTreemap,
    /// How often it was repeated.
    repeated: usize,
}

/// How a router is told of an API session that it gains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Gain {
    /// With a message of its own.
    Message,
    /// With the full state that is being written.
    FullState,
    /// With another full state, which has begun and is to be written.
    NewFullState,
}

/// A part of a full state.
pub(crate) struct StatePart {
    pub rows: Vec<u64>,
    pub is_last: bool,
}

impl AnnouncedSessions {
    /// Reserves the next full state, so that no other one is started before its end.
    pub(crate) fn reserve(&mut self) {
        (self.is_in_state, self.again) = (true, 0);
    }

    /// Starts a full state with these API sessions.
    pub(crate) fn begin(&mut self, known: RoaringTreemap) {
        (self.has_begun, self.is_in_state, self.window) = (true, true, None);
        self.coming = known;
    }

    /// Whether its request for a full state is granted: not while one is written, and once in each
    /// `pause`.
    pub(crate) fn may_resync(&mut self, pause: Duration) -> bool {
        let may = !self.is_in_state && self.requested.is_none_or(|at| at.elapsed() >= pause);
        if may {
            self.requested = Some(Instant::now());
        }
        may
    }

    /// Takes the next part of the full state, at most `count` API sessions. The router is told of
    /// them then.
    pub(crate) fn next_part(&mut self, count: usize, sessions: &ChannelSessions) -> StatePart {
        let rows: Vec<u64> = self.coming.iter().take(count).collect();
        for row in &rows {
            self.coming.remove(*row);
        }
        let rows: Vec<u64> = rows
            .into_iter()
            .filter(|row| sessions.find(*row).is_some())
            .collect();
        self.told.extend(rows.iter().copied());
        let is_last = self.coming.is_empty();
        if is_last {
            self.is_in_state = false;
            let greatest = self
                .told
                .iter()
                .filter_map(|row| Some(&sessions.find(row)?.id))
                .max()
                .cloned()
                .unwrap_or_default();
            self.window = Some(Window {
                began: Instant::now(),
                greatest,
                rows: RoaringTreemap::new(),
                repeated: 0,
            });
        }
        StatePart { rows, is_last }
    }

    /// Whether the router knows an API session or will.
    pub(crate) fn has(&self, row: u64) -> bool {
        self.told.contains(row) || self.coming.contains(row)
    }

    /// Whether the router knows one of these API sessions or will.
    pub(crate) fn has_any(&self, rows: &RoaringTreemap) -> bool {
        !self.told.is_disjoint(rows) || !self.coming.is_disjoint(rows)
    }

    /// Whether a full state was started, so that what the router will know is recorded.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// All that the router knows or will.
    pub(crate) fn all(&self) -> RoaringTreemap {
        &self.told | &self.coming
    }

    /// Whether a change of an API session is to be sent.
    pub(crate) fn is_told(&self, row: u64) -> bool {
        self.told.contains(row) && !self.coming.contains(row)
    }

    /// Records that the router may know an API session from now on.
    pub(crate) fn gain(&mut self, row: u64, id: &str) -> Gain {
        if self.is_in_state {
            self.coming.insert(row);
            return Gain::FullState;
        }
        if let Some(window) = self
            .window
            .as_mut()
            .filter(|window| window.greatest.is_empty() || *id <= *window.greatest)
        {
            if window.began.elapsed() < UNSEEN
                && self.again < MAX_STATES
                && self.told.len() < MAX_AGAIN
            {
                self.again += 1;
                self.begin(&self.told | &RoaringTreemap::from_iter([row]));
                return Gain::NewFullState;
            }
            window.rows.insert(row);
        }
        self.told.insert(row);
        Gain::Message
    }

    /// Records that the router may not know an API session any more. Returns whether its end is to
    /// be sent.
    pub(crate) fn lose(&mut self, row: u64) -> bool {
        self.coming.remove(row);
        self.told.remove(row)
    }

    /// When something is to be repeated next.
    pub(crate) fn repeats_at(&self) -> Option<Instant> {
        let window = self.window.as_ref()?;
        Some(window.began + *REPETITIONS.get(window.repeated)?)
    }

    /// What is to be repeated now.
    pub(crate) fn repeat(&mut self) -> Vec<u64> {
        let Some(window) = &mut self.window else {
            return Vec::new();
        };
        window.repeated += 1;
        window.rows &= &self.told;
        let rows = window.rows.iter().collect();
        if window.repeated >= REPETITIONS.len() {
            self.window = None;
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{super::channel_sessions::ChannelSession, *};

    /// These API sessions, with the rows from 0 on.
    fn sessions(ids: &[&str]) -> ChannelSessions {
        let mut all = ChannelSessions::default();
        for id in ids {
            let session = ChannelSession {
                id: (*id).into(),
                token: String::new(),
                identity: "ann".into(),
                is_of_router: false,
                encoded: Bytes::new(),
            };
            all.set(id, Some(session));
        }
        all
    }

    #[test]
    fn full_states_are_not_interrupted() {
        let (mut announced, all) = (AnnouncedSessions::default(), sessions(&["a"]));
        announced.reserve();
        assert!(!announced.may_resync(Duration::ZERO), "it is to be written");
        announced.begin([0].into_iter().collect());
        assert!(!announced.may_resync(Duration::ZERO), "it is being written");
        assert!(announced.next_part(1, &all).is_last && announced.may_resync(Duration::ZERO));
        assert!(!announced.may_resync(Duration::from_secs(3600)));
    }

    #[test]
    fn only_what_is_known_is_ended() {
        let (mut announced, all) = (
            AnnouncedSessions::default(),
            sessions(&["a", "b", "c", "d"]),
        );
        announced.begin((0..3).collect());
        assert_eq!(announced.next_part(1, &all).rows, [0]);
        assert!(announced.lose(0) && !announced.lose(0), "it was told of it");
        assert!(!announced.lose(1), "it was not yet told of it");
        assert_eq!(announced.gain(3, "d"), Gain::FullState);
        let last = announced.next_part(10, &all);
        assert_eq!((last.rows, last.is_last), (vec![2, 3], true));
        assert_eq!(announced.gain(0, "a"), Gain::NewFullState);
        assert!(announced.has(0) && !announced.is_told(0) && !announced.has(1));
        announced.next_part(10, &all);
        assert!(announced.is_told(0));
        // In another full state all are written again. What ends before is known from the first
        // one.
        announced.begin(announced.all());
        assert!(
            !announced.is_told(2),
            "the present form is written with the full state"
        );
        assert!(announced.lose(2));
        assert_eq!(announced.next_part(10, &all).rows, [0, 3]);
    }

    #[test]
    fn unseen_states_are_written_again() {
        let (mut announced, all) = (
            AnnouncedSessions::default(),
            sessions(&["a", "b", "c", "d"]),
        );
        announced.begin(RoaringTreemap::new());
        assert!(announced.next_part(1, &all).is_last);
        assert_eq!(
            announced.gain(1, "b"),
            Gain::NewFullState,
            "an empty state ends everything"
        );
        assert_eq!(announced.gain(3, "d"), Gain::FullState);
        assert_eq!(announced.next_part(10, &all).rows, [1, 3]);
        assert_eq!(
            (announced.gain(0, "a"), announced.next_part(10, &all).rows),
            (Gain::NewFullState, vec![0, 1, 3])
        );
        assert_eq!(
            announced.gain(4, "e"),
            Gain::Message,
            "the router keeps greater ids"
        );
        for _ in 2..MAX_STATES {
            assert!(announced.lose(0));
            assert_eq!(announced.gain(0, "a"), Gain::NewFullState);
            announced.next_part(10, &all);
        }
        announced.lose(0);
        assert_eq!(
            announced.gain(0, "a"),
            Gain::Message,
            "no router makes them without end"
        );
        announced.reserve();
        announced.begin(announced.all());
        announced.next_part(10, &all);
        assert_eq!(announced.gain(2, "c"), Gain::NewFullState);
    }

    #[test]
    fn what_routers_may_forget_is_repeated() {
        let (mut announced, all) = (
            AnnouncedSessions::default(),
            sessions(&["a", "b", "c", "d"]),
        );
        announced.again = MAX_STATES;
        announced.begin([1].into_iter().collect());
        assert!(announced.repeats_at().is_none());
        announced.next_part(1, &all);
        assert!(announced.repeats_at().is_some());
        for (row, id) in [(0, "a"), (2, "c")] {
            assert_eq!(announced.gain(row, id), Gain::Message);
        }
        assert_eq!(announced.repeat(), [0], "the router keeps greater ids");
        assert!(announced.lose(0));
        assert_eq!((announced.repeat(), announced.repeat()), (vec![], vec![]));
        assert!(announced.repeats_at().is_none());
        // An empty full state has no greatest id.
        let mut announced = AnnouncedSessions {
            again: MAX_STATES,
            ..AnnouncedSessions::default()
        };
        announced.begin(RoaringTreemap::new());
        assert!(announced.next_part(1, &all).is_last);
        assert_eq!(
            (announced.gain(3, "d"), announced.repeat()),
            (Gain::Message, vec![3])
        );
    }
}
