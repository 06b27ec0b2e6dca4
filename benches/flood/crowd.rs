//! Very many clients on a few threads: a thread per client would cost more than what is measured.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    num::NonZero,
    os::fd::AsRawFd,
    thread,
    time::{Duration, Instant},
};

use mio::{Events, Interest, Poll, Token, unix::SourceFd};

use super::{load::Load, wire::Wire};

/// The longest wait for an answer before the time limit is checked.
const REST: Duration = Duration::from_millis(50);

/// Every client sends the same request again and again for a while, over its own connection. A
/// rejected client waits for its `Retry-After`.
pub fn crowd(time: Duration, mut wires: Vec<Wire>, request: &str) -> Load {
    let start = Instant::now();
    // One thread per core.
    let some = wires
        .len()
        .div_ceil(thread::available_parallelism().map_or(1, NonZero::get));
    let parts: Vec<(Vec<Duration>, usize)> = thread::scope(|scope| {
        let started: Vec<_> = wires
            .chunks_mut(some)
            .map(|wires| scope.spawn(move || Part::new(wires, request).work(start, time)))
            .collect();
        started
            .into_iter()
            .map(|part| part.join().expect("clients"))
            .collect()
    });
    Load::of(parts, start.elapsed())
}

/// The clients of one thread.
struct Part<'w> {
    wires: &'w mut [Wire],
    request: &'w str,
    /// When each client sent its request.
    asked: Vec<Instant>,
    /// The rejected clients, by the time of their next request.
    later: BinaryHeap<Reverse<(Instant, usize)>>,
}

impl<'w> Part<'w> {
    fn new(wires: &'w mut [Wire], request: &'w str) -> Self {
        Self {
            asked: vec![Instant::now(); wires.len()],
            wires,
            request,
            later: BinaryHeap::new(),
        }
    }

    /// Returns the times of the successful answers, and the number of rejections.
    fn work(mut self, start: Instant, time: Duration) -> (Vec<Duration>, usize) {
        let (mut times, mut refused) = (Vec::new(), 0);
        let mut poll = Poll::new().expect("a way to wait");
        for (n, wire) in self.wires.iter().enumerate() {
            let socket = wire.socket().as_raw_fd();
            poll.registry()
                .register(&mut SourceFd(&socket), Token(n), Interest::READABLE)
                .expect("a connection");
        }
        (0..self.wires.len()).for_each(|n| self.ask(n));
        let mut answered = Events::with_capacity(64);
        while start.elapsed() < time {
            while self
                .later
                .peek()
                .is_some_and(|Reverse((due, _))| *due <= Instant::now())
            {
                let Some(Reverse((_, n))) = self.later.pop() else {
                    break;
                };
                self.ask(n);
            }
            let rest = self.later.peek().map_or(REST, |Reverse((due, _))| {
                due.saturating_duration_since(Instant::now()).min(REST)
            });
            poll.poll(&mut answered, Some(rest)).expect("answers");
            // Each answer is read completely, so that the next event of a connection is its next
            // answer.
            for Token(n) in answered.iter().map(|event| event.token()) {
                let answer = self.wires[n].answer().expect("an answer");
                if answer.status < 300 {
                    times.push(self.asked[n].elapsed());
                    self.ask(n);
                } else {
                    refused += 1;
                    let wait = answer
                        .retry_after
                        .unwrap_or_else(|| panic!("{}", answer.status));
                    self.later
                        .push(Reverse((Instant::now() + Duration::from_secs(wait), n)));
                }
            }
        }
        (times, refused)
    }

    fn ask(&mut self, n: usize) {
        self.asked[n] = Instant::now();
        self.wires[n]
            .send(self.request.as_bytes())
            .expect("a request");
    }
}
