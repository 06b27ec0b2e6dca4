//! One connection of HTTP/2, and what the library for it does not bound: how long a head is before it ends, how many answers a client
//! leaves unread, and for how long.
//!
//! HTTP/1.1 has one answer at a time and heads that its library bounds, and the kernel notices who takes nothing (`server.rs`). With HTTP/2
//! a client can take all that the kernel sends and yet leave every answer where it is. So what is read goes past [`Line`] and [`Heads`], each
//! answer goes out as [`Unread`], and where it becomes too much the connection is cut off, with all that waits on it.
//! Not here: who reads (`connection.rs`), requests that are worked on (`bounds.rs`). Invariant: an answer is known to its [`Line`] until its
//! body is gone.

use std::{
    cell::RefCell,
    collections::HashMap,
    error::Error as StdError,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use actix_web::{
    body::{BodySize, BoxBody, MessageBody},
    web::Bytes,
};

/// Answers are handed out in parts of so many bytes: whether a client takes anything shows from one to the next.
const PART: usize = 16 << 10;
/// Between two looks at how long answers have been waiting.
const REST: Duration = Duration::from_secs(1);

/// How much is too much.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Bytes of a head as it is sent.
    pub head: usize,
    /// Answers that are not taken.
    pub answers: usize,
    /// Time for the next part of an answer to be taken.
    pub time: Duration,
}

/// The answers that are on their way on one connection. Cheap to clone; stays on the thread of the connection.
#[derive(Clone)]
pub struct Line(Rc<RefCell<Waiting>>);

struct Waiting {
    patience: Patience,
    /// Since when the client has had something of each to take; nothing, where there is nothing to take yet.
    answers: HashMap<u64, Option<Instant>>,
    next: u64,
    looked: Instant,
}

impl Line {
    /// A connection on which nothing is on its way.
    pub fn new(patience: Patience) -> Self {
        Self(Rc::new(RefCell::new(Waiting { patience, answers: HashMap::new(), next: 0, looked: Instant::now() })))
    }

    /// A body as it goes out on this connection.
    pub fn carry(&self, body: BoxBody) -> Unread {
        let mut waiting = self.0.borrow_mut();
        let id = waiting.next;
        waiting.next += 1;
        waiting.answers.insert(id, None);
        Unread { line: self.clone(), id, body, rest: Bytes::new() }
    }

    /// Notes of an answer since when there is something to take.
    fn note(&self, id: u64, since: Option<Instant>) {
        self.0.borrow_mut().answers.insert(id, since);
    }

    /// Whether the client leaves too much where it is.
    pub fn is_left(&self) -> bool {
        let mut waiting = self.0.borrow_mut();
        let Waiting { patience, answers, looked, .. } = &mut *waiting;
        if answers.len() > patience.answers {
            return true;
        }
        if looked.elapsed() < REST {
            return false;
        }
        *looked = Instant::now();
        answers.values().flatten().any(|since| since.elapsed() > patience.time)
    }
}

/// The body of an answer that somebody has yet to take.
pub struct Unread {
    line: Line,
    id: u64,
    body: BoxBody,
    /// What came of the body and was not handed out.
    rest: Bytes,
}

impl MessageBody for Unread {
    type Error = Box<dyn StdError>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let this = self.get_mut();
        // Whoever asks for more has taken what there was.
        this.line.note(this.id, None);
        let part = match this.rest.is_empty() {
            true => ready!(Pin::new(&mut this.body).poll_next(cx)).transpose()?,
            false => Some(std::mem::take(&mut this.rest)),
        };
        this.line.note(this.id, Some(Instant::now()));
        Poll::Ready(part.map(|mut part| {
            this.rest = part.split_off(part.len().min(PART));
            Ok(part)
        }))
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.line.0.borrow_mut().answers.remove(&self.id);
    }
}

/// Follows the frames of a client (RFC 9113, section 4.1) and adds up those that make one head: HEADERS, and the CONTINUATIONs behind it.
pub struct Heads {
    /// Bytes to pass over until the next frame begins: at first the preface (section 3.4).
    ahead: usize,
    /// What has come of the 9 bytes that a frame begins with.
    begun: Vec<u8>,
    head: usize,
    most: usize,
}

impl Heads {
    const PREFACE: usize = 24;
    const BEGINNING: usize = 9;
    const HEADERS: u8 = 1;
    const CONTINUATION: u8 = 9;

    /// Of a client that has said nothing yet; no head may have more bytes.
    pub fn new(most: usize) -> Self {
        Self { ahead: Self::PREFACE, begun: Vec::with_capacity(Self::BEGINNING), head: 0, most }
    }

    /// Takes what was read next. Says whether no head is too long.
    pub fn take(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let wanted = if self.ahead > 0 { self.ahead } else { Self::BEGINNING - self.begun.len() };
            let (part, rest) = bytes.split_at(wanted.min(bytes.len()));
            bytes = rest;
            if self.ahead > 0 {
                self.ahead -= part.len();
                continue;
            }
            self.begun.extend_from_slice(part);
            if let [a, b, c, kind, ..] = self.begun[..]
                && self.begun.len() == Self::BEGINNING
            {
                self.begun.clear();
                self.ahead = u32::from_be_bytes([0, a, b, c]) as usize;
                match kind {
                    Self::HEADERS => self.head = self.ahead,
                    Self::CONTINUATION => self.head += self.ahead,
                    _ => {}
                }
                if self.head > self.most {
                    return false;
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, bytes: usize) -> Vec<u8> {
        let [_, a, b, c] = u32::try_from(bytes).unwrap().to_be_bytes();
        let mut frame = vec![a, b, c, kind, 4, 0, 0, 0, 1];
        frame.resize(9 + bytes, Heads::HEADERS);
        frame
    }

    #[test]
    fn a_head_is_what_its_frames_are_together_however_they_arrive() {
        let fits = [vec![0; 24], frame(4, 6), frame(1, 600), frame(9, 400), frame(0, 5000), frame(1, 1000), frame(8, 4)].concat();
        let long = [fits.clone(), frame(1, 600), frame(9, 401)].concat();
        for step in [1, 2, 8, 9, 10, 599, 10_000] {
            let taken = |bytes: &[u8]| {
                let mut heads = Heads::new(1000);
                bytes.chunks(step).all(|part| heads.take(part))
            };
            assert!(taken(&fits) && !taken(&long), "{step} bytes at a time");
        }
    }

    #[test]
    fn what_is_left_for_too_long_or_too_much_is_noticed_and_what_is_taken_is_not() {
        let patience = Patience { head: 1, answers: 2, time: Duration::from_secs(5) };
        let line = Line::new(patience);
        let at = |line: &Line, seconds: u64| {
            let mut waiting = line.0.borrow_mut();
            let back = Duration::from_secs(seconds);
            waiting.looked -= back;
            waiting.answers.values_mut().flatten().for_each(|since| *since -= back);
        };
        let mut body = line.carry(BoxBody::new(Bytes::from(vec![7; PART + 1])));
        let mut next = || Pin::new(&mut body).poll_next(&mut Context::from_waker(std::task::Waker::noop()));
        let length = |part: Poll<Option<Result<Bytes, _>>>| match part {
            Poll::Ready(Some(Ok(part))) => part.len(),
            _ => 0,
        };
        at(&line, 60);
        assert!(!line.is_left(), "there was nothing to take");
        assert_eq!(length(next()), PART);
        at(&line, 4);
        assert!(!line.is_left());
        assert_eq!(length(next()), 1);
        at(&line, 4);
        assert!(!line.is_left(), "a part was taken meanwhile");
        at(&line, 4);
        assert!(line.is_left());
        drop(body);
        assert!(!line.is_left());
        let bodies = [1, 2, 3].map(|_| line.carry(BoxBody::new(Bytes::new())));
        assert!(line.is_left());
        drop(bodies);
        assert!(!line.is_left() && line.0.borrow().answers.is_empty());
    }
}
