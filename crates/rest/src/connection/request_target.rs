//! Request targets as scripts send them: `?filter=name="web"` with literal quotation marks.
//!
//! RFC 3986 requires such characters to be percent-encoded. Common servers accept them literally,
//! but actix-web answers 400. They are therefore encoded before actix-web reads them, and only in
//! request lines. To find the next request line, the guard reads each head to its end and skips the
//! body, by its `content-length` or by its chunks. If a head gives the length of its body in a
//! malformed or ambiguous way, nothing on the connection is checked after this head. Invariant: no
//! byte of a header or a body is changed.
//!
//! actix-web answers 400 without a body to a target that is longer than its type for them. The
//! guard passes on only the beginning of such a target, which is longer than the limit, so that the
//! dispatcher answers with an error.

use super::chunked_body::{ChunkedBody, Progress};

/// Tracks the position in the incoming bytes of an HTTP/1.1 connection.
pub(crate) struct TargetGuard {
    at: Position,
    /// Spaces so far in the request line: the target follows the first one.
    spaces: usize,
    /// Bytes of the current target so far, as they are passed on.
    target: usize,
    /// Bytes of the current target that were not passed on.
    dropped: usize,
    /// The most bytes of a target that are not too many.
    limit: usize,
    /// The beginning of the current header.
    header: Vec<u8>,
    length: Option<u64>,
    is_chunked: bool,
    is_odd: bool,
    /// Received bytes of the current head, without those that were not passed on.
    come: usize,
}

#[derive(Clone, Copy)]
enum Position {
    Line,
    Headers,
    /// Remaining bytes of a body.
    Body(u64),
    Chunks(ChunkedBody),
    /// Nothing is checked any more.
    Beyond,
}

/// The maximum bytes buffered once nothing is checked any more.
const MAX_UNCHECKED: usize = 128 << 10;
/// The kept length of a header; a longer one does not give a valid content length.
const MAX_HEADER_KEPT: usize = 64;
/// The most bytes of a target that are read to its end.
const MAX_DROPPED: usize = 8 << 20;

impl TargetGuard {
    /// For a new connection; `limit` is the maximum bytes of a target.
    pub(crate) fn new(limit: usize) -> Self {
        let (at, header) = (Position::Line, Vec::new());
        Self {
            at,
            spaces: 0,
            target: 0,
            dropped: 0,
            limit,
            header,
            length: None,
            is_chunked: false,
            is_odd: false,
            come: 0,
        }
    }

    /// Processes received bytes. Returns their replacement, if they must be changed.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut encoded: Option<Vec<u8>> = None;
        let mut rest = bytes;
        while !rest.is_empty() {
            let line = || {
                rest.iter()
                    .position(|byte| *byte == b'\n')
                    .map_or(rest.len(), |end| end + 1)
            };
            let part = match &mut self.at {
                Position::Line | Position::Headers => line(),
                Position::Body(length) => {
                    usize::try_from(*length).map_or(rest.len(), |length| length.min(rest.len()))
                }
                Position::Chunks(body) => match body.take(rest) {
                    Progress::Inside => rest.len(),
                    Progress::Ended(at) => {
                        self.at = Position::Body(at as u64);
                        at
                    }
                    Progress::Malformed => {
                        self.at = Position::Beyond;
                        rest.len()
                    }
                },
                Position::Beyond => rest.len(),
            };
            let (part, behind) = rest.split_at(part.min(rest.len()));
            if matches!(self.at, Position::Line) {
                self.begin(part, bytes.len() - rest.len(), bytes, &mut encoded);
            } else {
                if let Some(encoded) = &mut encoded {
                    encoded.extend_from_slice(part);
                }
                self.advance(part);
            }
            rest = behind;
        }
        encoded
    }

    /// Received bytes of an incomplete head; [`MAX_UNCHECKED`] once nothing is checked any more.
    pub(crate) fn unfinished(&self) -> usize {
        match self.at {
            Position::Line | Position::Headers => self.come,
            Position::Body(_) | Position::Chunks(_) => 0,
            Position::Beyond => MAX_UNCHECKED,
        }
    }

    /// Whether the current target is longer than any that is read to its end.
    pub(crate) fn is_endless(&self) -> bool {
        self.dropped > MAX_DROPPED
    }

    /// Processes a part of the request line that is at position `at` of `all`.
    fn begin(&mut self, part: &[u8], at: usize, all: &[u8], encoded: &mut Option<Vec<u8>>) {
        for (place, byte) in (at..).zip(part) {
            let is_target = self.spaces == 1 && !byte.is_ascii_whitespace();
            let is_beyond = is_target && self.target > self.limit;
            let is_encoded = is_target && is_unfit(*byte);
            if is_beyond || is_encoded {
                encoded.get_or_insert_with(|| all.get(..place).unwrap_or_default().to_vec());
            }
            let passed = match is_encoded {
                _ if is_beyond => 0,
                true => ENCODED,
                false => 1,
            };
            self.come += passed;
            self.target += if is_target { passed } else { 0 };
            self.dropped += usize::from(is_beyond);
            if let Some(encoded) = encoded {
                match is_encoded {
                    _ if is_beyond => {}
                    true => encoded.extend_from_slice(format!("%{byte:02X}").as_bytes()),
                    false => encoded.push(*byte),
                }
            }
            self.spaces += usize::from(*byte == b' ');
        }
        // Empty lines may precede a request.
        if part.ends_with(b"\n") && std::mem::take(&mut self.spaces) > 0 {
            (self.at, self.target, self.dropped) = (Position::Headers, 0, 0);
        }
    }

    fn advance(&mut self, part: &[u8]) {
        match self.at {
            Position::Body(length) => {
                let left = length.saturating_sub(part.len() as u64);
                self.at = if left > 0 {
                    Position::Body(left)
                } else {
                    Position::Line
                };
            }
            Position::Headers => {
                self.come += part.len();
                let room = MAX_HEADER_KEPT.saturating_sub(self.header.len());
                self.header.extend(part.iter().take(room));
                if part.ends_with(b"\n") {
                    let header = std::mem::take(&mut self.header);
                    self.note(header.trim_ascii_end(), header.len() < MAX_HEADER_KEPT);
                    self.header = header;
                    self.header.clear();
                }
            }
            Position::Line | Position::Chunks(_) | Position::Beyond => {}
        }
    }

    /// Processes a header; an empty one ends the head.
    fn note(&mut self, header: &[u8], is_whole: bool) {
        let name = header
            .split(|byte| *byte == b':')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        let value = header
            .get(name.len() + 1..)
            .unwrap_or_default()
            .trim_ascii();
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if header.is_empty() {
            let (length, is_chunked) = (self.length.take(), std::mem::take(&mut self.is_chunked));
            self.at = match length {
                _ if self.is_odd => Position::Beyond,
                Some(_) if is_chunked => Position::Beyond,
                None if is_chunked => Position::Chunks(ChunkedBody::default()),
                None | Some(0) => Position::Line,
                Some(length) => Position::Body(length),
            };
            self.come = 0;
        } else if is("content-length") {
            let digits =
                Some(value).filter(|value| is_whole && value.iter().all(u8::is_ascii_digit));
            let length = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
            self.is_odd |= length.is_none() || self.length.is_some();
            self.length = length;
        } else if is("transfer-encoding") {
            self.is_odd |= !is_whole || self.is_chunked || !value.eq_ignore_ascii_case(b"chunked");
            self.is_chunked = true;
        } else if is("upgrade") {
            // actix-web reads everything behind the head of a WebSocket as its data, and ignores
            // other upgrades.
            self.is_odd |= !is_whole || value.eq_ignore_ascii_case(b"websocket");
        } else {
            // A continuation line is obsolete and must not be sent.
            self.is_odd |= header.starts_with(b" ") || header.starts_with(b"\t");
        }
    }
}

/// The bytes of a percent-encoded character.
const ENCODED: usize = 3;

/// Whether a character must be percent-encoded in a target (RFC 3986) but is sent literally by
/// clients.
fn is_unfit(byte: u8) -> bool {
    matches!(
        byte,
        b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x80..
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str, step: usize) -> String {
        let mut targets = TargetGuard::new(100);
        let taken = text
            .as_bytes()
            .chunks(step)
            .flat_map(|part| targets.take(part).unwrap_or_else(|| part.to_vec()))
            .collect();
        String::from_utf8(taken).unwrap()
    }

    #[test]
    fn only_targets_are_encoded() {
        let body = "GET /\"c\" HTTP/1.1\r\n\r\n<>";
        let second = "\r\nGET /ä<>?{|}^`\\ HTTP/1.1\ncookie: \"\n\nGET /\" HTTP/1.1\r\n\r\n";
        let first = format!(
            "POST /a?x=\"b\" HTTP/1.1\r\nx: \"y\"\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let sent = format!("{first}{body}{second}");
        let wanted = sent
            .replacen("x=\"b\"", "x=%22b%22", 1)
            .replacen("/ä<>?{|}^`\\", "/%C3%A4%3C%3E?%7B%7C%7D%5E%60%5C", 1)
            .replacen("GET /\" H", "GET /%22 H", 1);
        for step in [1, 2, 3, 7, 64, 1000] {
            assert_eq!(taken(&sent, step), wanted, "{step} bytes at a time");
        }
    }

    #[test]
    fn ambiguous_heads_change_nothing() {
        let next = "GET /\" HTTP/1.1\r\n\r\n";
        for header in [
            "Transfer-Encoding: identity",
            "Transfer-Encoding: chunked, chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\ncontent-length: 5",
            "Transfer-Encoding: chunked\r\n\r\nx",
            "upgrade: WebSocket",
            "content-length: +0",
            "content-length: 0, 0",
            "content-length: 0\r\ncontent-length: 0",
            "content-length:",
            "content-length: 0\r\n 0",
            "content-length: 99999999999999999999999999",
            &format!("content-length: {}1", "0".repeat(MAX_HEADER_KEPT)),
        ] {
            let sent = format!("POST /\" HTTP/1.1\r\n{header}\r\n\r\n{next}");
            assert_eq!(taken(&sent, 5), sent.replacen("/\"", "/%22", 1), "{header}");
        }
        let sound = format!("POST / HTTP/1.1\r\nContent-Length:0\r\n\r\n{next}");
        assert_eq!(taken(&sound, 5), sound.replacen("/\"", "/%22", 1));
    }
    #[test]
    fn targets_behind_chunks_are_encoded() {
        let next = "GET /\" HTTP/1.1\r\n\r\n";
        let chunks = "5\r\nGET /\r\n2;x=\"y\"\r\n\"\n\r\n0\r\nx: <\r\n\r\n";
        for header in [
            "Transfer-Encoding: chunked",
            "upgrade: h2c\r\ntransfer-encoding:\tCHUNKED ",
        ] {
            let sent = format!("POST /b HTTP/1.1\r\n{header}\r\n\r\n{chunks}{next}{next}");
            for step in [1, 2, 3, 7, 64, 1000] {
                assert_eq!(
                    taken(&sent, step),
                    sent.replace("/\" ", "/%22 "),
                    "{header}, {step} bytes at a time"
                );
            }
        }
    }

    #[test]
    fn long_targets_are_cut_off() {
        let rest = " HTTP/1.1\r\nx: y\r\n\r\nGET /\" HTTP/1.1\r\n\r\n";
        let wanted = rest.replace("/\"", "/%22");
        for (target, cut) in [
            ("a".repeat(300), "a".repeat(101)),
            ("\"".repeat(300), "%22".repeat(34)),
            ("a".repeat(101), "a".repeat(101)),
        ] {
            for step in [1, 7, 64, 1000] {
                assert_eq!(
                    taken(&format!("GET {target}{rest}"), step),
                    format!("GET {cut}{wanted}"),
                    "{step} bytes at a time"
                );
            }
        }
        let mut targets = TargetGuard::new(100);
        targets.take(b"GET /");
        let part = vec![b'a'; 1 << 20];
        assert!((0..8).all(|_| targets.take(&part).is_some() && !targets.is_endless()));
        assert_eq!(
            (
                targets.take(&part),
                targets.is_endless(),
                targets.unfinished()
            ),
            (Some(Vec::new()), true, 105)
        );
    }
}
