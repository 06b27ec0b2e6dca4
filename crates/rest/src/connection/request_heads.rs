//! Heads of HTTP/2 requests while they arrive. `h2` bounds the content of complete heads; this
//! module bounds the length of an incomplete head and counts the received bytes of incomplete heads
//! and frames.

/// Tracks the frames of a client (RFC 9113, section 4.1) and adds up the lengths of those of one
/// head: HEADERS and its CONTINUATIONs.
pub(crate) struct Heads {
    /// Bytes to skip until the next frame begins: at first the preface (section 3.4).
    ahead: usize,
    /// The received part of the 9-byte frame header.
    begun: Vec<u8>,
    /// Bytes of the head so far, including the announced length of its current frame.
    head: usize,
    /// Whether another part of the head follows.
    is_open: bool,
    /// Whether the current frame is part of a head.
    is_head: bool,
    /// Received bytes of the current frame.
    come: usize,
    limit: usize,
}

impl Heads {
    const PREFACE: usize = 24;
    const BEGINNING: usize = 9;
    const HEADERS: u8 = 1;
    const CONTINUATION: u8 = 9;
    const END_HEADERS: u8 = 4;

    /// For a new connection; `limit` is the maximum bytes of a head.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            ahead: Self::PREFACE,
            begun: Vec::with_capacity(Self::BEGINNING),
            head: 0,
            is_open: false,
            is_head: false,
            come: 0,
            limit,
        }
    }

    /// Processes received bytes. Returns false if a head is too long.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let wanted = if self.ahead > 0 {
                self.ahead
            } else {
                Self::BEGINNING - self.begun.len()
            };
            let (part, rest) = bytes.split_at(wanted.min(bytes.len()));
            bytes = rest;
            if self.ahead > 0 {
                self.ahead -= part.len();
                self.come += part.len();
                continue;
            }
            self.begun.extend_from_slice(part);
            if let [a, b, c, kind, flags, ..] = self.begun[..]
                && self.begun.len() == Self::BEGINNING
            {
                self.begun.clear();
                self.ahead = u32::from_be_bytes([0, a, b, c]) as usize;
                self.come = 0;
                match kind {
                    Self::HEADERS => self.head = self.ahead,
                    Self::CONTINUATION => self.head += self.ahead,
                    _ => {}
                }
                self.is_head = matches!(kind, Self::HEADERS | Self::CONTINUATION);
                if self.is_head {
                    self.is_open = flags & Self::END_HEADERS == 0;
                }
                if self.head > self.limit {
                    return false;
                }
            }
        }
        true
    }

    /// Received bytes of an incomplete frame or head.
    pub(crate) fn unfinished(&self) -> usize {
        match self.ahead {
            0 if self.is_open => self.head,
            0 => 0,
            ahead if self.is_head => self.head.saturating_sub(ahead),
            _ => self.come,
        }
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
    fn heads_join_their_frames() {
        let fits = [
            vec![0; 24],
            frame(4, 6),
            frame(1, 600),
            frame(9, 400),
            frame(0, 5000),
            frame(1, 1000),
            frame(8, 4),
        ]
        .concat();
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
    fn partial_heads_are_unfinished() {
        let mut heads = Heads::new(1000);
        let mut unfinished = |bytes: &[u8]| {
            assert!(heads.take(bytes));
            heads.unfinished()
        };
        let open = |kind: u8, bytes: usize| {
            let mut frame = frame(kind, bytes);
            frame[4] = 0;
            frame
        };
        assert_eq!(unfinished(&[vec![0; 24], frame(1, 60)].concat()), 0);
        let data = frame(0, 300);
        assert_eq!(
            (unfinished(&data[..109]), unfinished(&data[109..])),
            (100, 0)
        );
        assert_eq!(unfinished(&open(1, 200)), 200);
        let next = frame(9, 100);
        assert_eq!((unfinished(&next[..59]), unfinished(&next[59..])), (250, 0));
    }
}
