//! Request targets as scripts send them: `?filter=name="web"` with literal quotation marks.
//!
//! RFC 3986 requires such characters to be percent-encoded. Common servers accept them literally, but actix-web answers 400. They are
//! therefore encoded before actix-web reads them, and only in request lines. To find the next request line, the guard reads each head to
//! its end and skips the body by its `content-length`. If a head has a malformed or repeated `content-length`, or another way to give the
//! length, nothing on the connection is checked after this head. Invariant: no byte of a header or a body is changed.

/// Tracks the position in the incoming bytes of an HTTP/1.1 connection.
#[derive(Default)]
pub(crate) struct TargetGuard {
    at: Position,
    /// Spaces so far in the request line: the target follows the first one.
    spaces: usize,
    /// The beginning of the current header.
    header: Vec<u8>,
    length: Option<u64>,
    is_odd: bool,
    /// Received bytes of the current head.
    come: usize,
}

#[derive(Default, Clone, Copy)]
enum Position {
    #[default]
    Line,
    Headers,
    /// Remaining bytes of a body.
    Body(u64),
    /// Nothing is checked any more.
    Beyond,
}

/// The maximum bytes buffered once nothing is checked any more.
const MAX_UNCHECKED: usize = 128 << 10;
/// The kept length of a header; a longer one does not give a valid content length.
const MAX_HEADER_KEPT: usize = 64;

impl TargetGuard {
    /// Processes received bytes. Returns their replacement, if they must be changed.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut encoded: Option<Vec<u8>> = None;
        let mut rest = bytes;
        while !rest.is_empty() {
            let line = || rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
            let part = match self.at {
                Position::Line | Position::Headers => line(),
                Position::Body(length) => usize::try_from(length).map_or(rest.len(), |length| length.min(rest.len())),
                Position::Beyond => rest.len(),
            };
            let (part, behind) = rest.split_at(part);
            match self.at {
                Position::Line | Position::Headers => self.come += part.len(),
                Position::Body(_) | Position::Beyond => {}
            }
            if matches!(self.at, Position::Line) {
                self.begin(part, bytes.len() - rest.len(), bytes, &mut encoded);
            } else {
                encoded.iter_mut().for_each(|encoded| encoded.extend_from_slice(part));
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
            Position::Body(_) => 0,
            Position::Beyond => MAX_UNCHECKED,
        }
    }

    /// Processes a part of the request line that is at position `at` of `all`.
    fn begin(&mut self, part: &[u8], at: usize, all: &[u8], encoded: &mut Option<Vec<u8>>) {
        for (place, byte) in (at..).zip(part) {
            if self.spaces == 1 && is_unfit(*byte) {
                let encoded = encoded.get_or_insert_with(|| all.get(..place).unwrap_or_default().to_vec());
                encoded.extend_from_slice(format!("%{byte:02X}").as_bytes());
            } else {
                encoded.iter_mut().for_each(|encoded| encoded.push(*byte));
            }
            self.spaces += usize::from(*byte == b' ');
        }
        // Empty lines may precede a request.
        if part.ends_with(b"\n") && std::mem::take(&mut self.spaces) > 0 {
            self.at = Position::Headers;
        }
    }

    fn advance(&mut self, part: &[u8]) {
        match self.at {
            Position::Body(length) => {
                let left = length.saturating_sub(part.len() as u64);
                self.at = if left > 0 { Position::Body(left) } else { Position::Line };
            }
            Position::Headers => {
                let room = MAX_HEADER_KEPT.saturating_sub(self.header.len());
                self.header.extend(part.iter().take(room));
                if part.ends_with(b"\n") {
                    let header = std::mem::take(&mut self.header);
                    self.note(header.trim_ascii_end(), header.len() < MAX_HEADER_KEPT);
                    self.header = header;
                    self.header.clear();
                }
            }
            Position::Line | Position::Beyond => {}
        }
    }

    /// Processes a header; an empty one ends the head.
    fn note(&mut self, header: &[u8], is_whole: bool) {
        let name = header.split(|byte| *byte == b':').next().unwrap_or_default().trim_ascii();
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if header.is_empty() {
            let length = self.length.take().unwrap_or_default();
            self.at = match length {
                _ if self.is_odd => Position::Beyond,
                0 => Position::Line,
                length => Position::Body(length),
            };
            self.come = 0;
        } else if is("content-length") {
            let value = header.get(name.len() + 1..).unwrap_or_default().trim_ascii();
            let digits = Some(value).filter(|value| is_whole && value.iter().all(u8::is_ascii_digit));
            let length = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
            self.is_odd |= length.is_none() || self.length.is_some();
            self.length = length;
        } else {
            // A continuation line is obsolete and must not be sent.
            self.is_odd |= header.starts_with(b" ") || header.starts_with(b"\t") || is("transfer-encoding") || is("upgrade");
        }
    }
}

/// Whether a character must be percent-encoded in a target (RFC 3986) but is sent literally by clients.
fn is_unfit(byte: u8) -> bool {
    matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x80..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str, step: usize) -> String {
        let mut targets = TargetGuard::default();
        let taken = text.as_bytes().chunks(step).flat_map(|part| targets.take(part).unwrap_or_else(|| part.to_vec())).collect();
        String::from_utf8(taken).unwrap()
    }

    #[test]
    fn only_targets_are_encoded() {
        let body = "GET /\"c\" HTTP/1.1\r\n\r\n<>";
        let second = "\r\nGET /ä<>?{|}^`\\ HTTP/1.1\ncookie: \"\n\nGET /\" HTTP/1.1\r\n\r\n";
        let first = format!("POST /a?x=\"b\" HTTP/1.1\r\nx: \"y\"\r\nContent-Length: {}\r\n\r\n", body.len());
        let sent = format!("{first}{body}{second}");
        let wanted = sent.replacen("x=\"b\"", "x=%22b%22", 1).replacen("/ä<>?{|}^`\\", "/%C3%A4%3C%3E?%7B%7C%7D%5E%60%5C", 1).replacen(
            "GET /\" H",
            "GET /%22 H",
            1,
        );
        for step in [1, 2, 3, 7, 64, 1000] {
            assert_eq!(taken(&sent, step), wanted, "{step} bytes at a time");
        }
    }

    #[test]
    fn ambiguous_heads_change_nothing() {
        let next = "GET /\" HTTP/1.1\r\n\r\n";
        for header in [
            "Transfer-Encoding: chunked",
            "upgrade: h2c",
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
}
