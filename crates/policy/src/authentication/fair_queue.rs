//! The queue of jobs for the hashing threads: which job runs next, and which is dropped when the
//! queue is full.
//!
//! The queue is fair by source network and by user name. A job is measured by the busier of its two
//! keys, network and name. The next job is the one whose keys were served least often recently.
//! When the queue is full, the newest job of the keys with the most waiting jobs is dropped. So a
//! flood from one network under many names, and a flood at one name from many networks, delay only
//! themselves. Invariant: at most `limit` jobs wait.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    net::{IpAddr, Ipv6Addr},
    sync::{Condvar, Mutex, PoisonError},
};

/// After this many jobs the served counts are halved.
const HALF_LIFE: u32 = 64;

/// The source of a job.
#[derive(Debug, Clone, Default)]
pub struct Requester {
    /// The source address of the request.
    pub address: Option<IpAddr>,
    /// The given user name, or the id of the identity whose password is set.
    pub name: String,
}

/// Whether a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobOutcome {
    Now,
    /// Dropped in favour of other jobs.
    Never,
}

type Job = Box<dyn FnOnce(JobOutcome) + Send>;

/// The network of an address: an IPv4 address itself, or the first 64 bits of an IPv6 address,
/// which one customer has.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(
            address.to_bits() & !u128::from(u64::MAX),
        )),
        address => address,
    }
}

/// The jobs that wait for a thread.
pub(crate) struct FairQueue {
    state: Mutex<State>,
    arrived: Condvar,
    limit: usize,
    hasher: RandomState,
}

#[derive(Default)]
struct State {
    jobs: Vec<QueuedJob>,
    arrivals: u64,
    served: Served,
    is_closed: bool,
}

/// A waiting job; `by` holds the hashes of its network and name.
struct QueuedJob {
    by: [u64; 2],
    arrival: u64,
    job: Job,
}

/// How often each network and each name was served recently.
#[derive(Default)]
struct Served {
    times: HashMap<u64, u32>,
    since_halved: u32,
}

impl Served {
    fn note(&mut self, by: [u64; 2]) {
        by.into_iter()
            .for_each(|key| *self.times.entry(key).or_default() += 1);
        self.since_halved += 1;
        if self.since_halved >= HALF_LIFE {
            self.since_halved = 0;
            self.times.retain(|_, times| {
                *times /= 2;
                *times > 0
            });
        }
    }

    /// The counts of both keys, the larger first.
    fn counts(&self, by: [u64; 2]) -> [u32; 2] {
        ordered(by.map(|key| self.times.get(&key).copied().unwrap_or_default()))
    }
}

/// Two numbers, the larger first.
fn ordered([one, other]: [u32; 2]) -> [u32; 2] {
    [one.max(other), one.min(other)]
}

impl State {
    /// Removes the job that runs next.
    fn next(&mut self) -> Option<Job> {
        let next = self
            .jobs
            .iter()
            .enumerate()
            .min_by_key(|(_, place)| (self.served.counts(place.by), place.arrival))?
            .0;
        let QueuedJob { by, job, .. } = self.jobs.swap_remove(next);
        self.served.note(by);
        Some(job)
    }

    /// Removes the job to drop from a full queue.
    fn surplus(&mut self) -> Option<Job> {
        let mut waiting: HashMap<u64, u32> = HashMap::new();
        self.jobs
            .iter()
            .flat_map(|place| place.by)
            .for_each(|key| *waiting.entry(key).or_default() += 1);
        let has =
            |by: [u64; 2]| ordered(by.map(|key| waiting.get(&key).copied().unwrap_or_default()));
        let limit =
            |place: &QueuedJob| (has(place.by), self.served.counts(place.by), place.arrival);
        let surplus = self
            .jobs
            .iter()
            .enumerate()
            .max_by_key(|(_, place)| limit(place))?
            .0;
        Some(self.jobs.swap_remove(surplus).job)
    }
}

impl FairQueue {
    /// A queue for at most `limit` jobs.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            state: Mutex::default(),
            arrived: Condvar::new(),
            limit,
            hasher: RandomState::new(),
        }
    }

    /// Adds a job. A full queue drops one job, which may be this one.
    pub(crate) fn push(&self, asker: &Requester, job: Job) {
        let by = [
            self.hasher.hash_one(asker.address.map(network)),
            self.hasher.hash_one(&asker.name),
        ];
        let mut state = self.lock();
        let arrival = state.arrivals;
        state.arrivals += 1;
        state.jobs.push(QueuedJob { by, arrival, job });
        let surplus = if state.jobs.len() > self.limit {
            state.surplus()
        } else {
            None
        };
        drop(state);
        self.arrived.notify_one();
        if let Some(job) = surplus {
            job(JobOutcome::Never);
        }
    }

    /// Waits for the next job; `None` after [`FairQueue::close`].
    pub(crate) fn pop(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(job) = state.next() {
                return Some(job);
            }
            state = self
                .arrived
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the threads and drops the waiting jobs.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let left = std::mem::take(&mut state.jobs);
        drop(state);
        self.arrived.notify_all();
        drop(left);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Records the outcome of jobs by name.
    #[derive(Default, Clone)]
    struct Fates(Arc<Mutex<Vec<(String, JobOutcome)>>>);

    impl Fates {
        fn job(&self, name: &str) -> Job {
            let (fates, name) = (self.clone(), name.to_owned());
            Box::new(move |outcome| fates.0.lock().unwrap().push((name, outcome)))
        }

        fn taken(&self) -> Vec<(String, JobOutcome)> {
            std::mem::take(&mut *self.0.lock().unwrap())
        }
    }

    fn asker(address: &str, name: &str) -> Requester {
        Requester {
            address: Some(address.parse().unwrap()),
            name: name.into(),
        }
    }

    /// Keeps the queue full with a flood while an honest caller asks again whenever it was served.
    /// Returns how many of the turns went to the honest caller, and whether one of its jobs was
    /// dropped.
    fn share(
        flood: impl Fn(usize) -> Requester,
        honest: &Requester,
        turns: usize,
    ) -> (usize, bool) {
        let (waiting, fates) = (FairQueue::new(16), Fates::default());
        let (mut asked, mut served, mut refused) = (0, 0, false);
        for _ in 0..turns {
            for _ in 0..40 {
                asked += 1;
                waiting.push(&flood(asked), fates.job("flood"));
            }
            waiting.push(honest, fates.job("honest"));
            for _ in 0..40 {
                asked += 1;
                waiting.push(&flood(asked), fates.job("flood"));
            }
            waiting.pop().unwrap()(JobOutcome::Now);
            for (name, outcome) in fates.taken() {
                served += usize::from(name == "honest" && outcome == JobOutcome::Now);
                refused |= name == "honest" && outcome == JobOutcome::Never;
            }
        }
        (served, refused)
    }

    #[test]
    fn flood_leaves_half_for_others() {
        let honest = asker("192.0.2.7", "honest");
        let from_one_place = |n: usize| asker("198.51.100.1", &format!("name-{n}"));
        let at_one_name =
            |n: usize| asker(&format!("10.0.{}.{}", n / 250 % 250, n % 250), "victim");
        let from_one_network =
            |n: usize| asker(&format!("2001:db8::{:x}", n % 60_000), &format!("name-{n}"));
        let floods: [&dyn Fn(usize) -> Requester; 3] =
            [&from_one_place, &at_one_name, &from_one_network];
        for (at, flood) in floods.into_iter().enumerate() {
            let (served, _) = share(flood, &honest, 200);
            assert!(served >= 99, "flood {at}: {served} of 200");
        }
        // The honest caller shares the address or the name with the flood; the other key tells them
        // apart.
        let beside = asker("198.51.100.1", "honest");
        let attacked = asker("192.0.2.7", "victim");
        let at_few_names = |n: usize| asker("198.51.100.1", &format!("name-{}", n % 3));
        let from_few_places = |n: usize| asker(&format!("10.0.0.{}", n % 3), "victim");
        assert!(share(at_few_names, &beside, 200).0 >= 40);
        assert!(share(from_few_places, &attacked, 200).0 >= 40);
    }

    #[test]
    fn rare_callers_are_refused_last() {
        let (waiting, fates) = (FairQueue::new(2), Fates::default());
        let (ann, bob) = (asker("192.0.2.1", "ann"), asker("192.0.2.2", "bob"));
        waiting.push(&ann, fates.job("ann"));
        waiting.push(&ann, fates.job("ann again"));
        waiting.push(&bob, fates.job("bob"));
        assert_eq!(fates.taken(), [("ann again".to_owned(), JobOutcome::Never)]);
        waiting.push(&asker("192.0.2.3", "eve"), fates.job("eve"));
        assert_eq!(
            fates.taken(),
            [("eve".to_owned(), JobOutcome::Never)],
            "among equals the newest job must be dropped"
        );
        waiting.close();
        assert!(waiting.pop().is_none() && fates.taken().is_empty());
    }
}
