//! The end of a chunked body (RFC 9112 section 7.1), found as the HTTP library finds it. No byte of
//! the body is kept.

/// The position within a chunked body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkedBody {
    part: Part,
    /// The size of the current chunk, and then its remaining bytes.
    left: u64,
}

/// What the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The first digit of a size.
    Size,
    /// Further digits of it.
    Digits,
    /// White space behind the digits.
    Blank,
    Extension,
    /// The line feed after a size.
    SizeEnd,
    Data,
    /// The line end after the data of a chunk.
    DataReturn,
    DataEnd,
    /// The first byte of a line after the last chunk.
    Last,
    Trailer,
    TrailerEnd,
    /// The line feed that ends the body.
    End,
}

/// What some bytes do to a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It goes on.
    Inside,
    /// It ended with the byte before this position.
    Ended(usize),
    /// The bytes are no chunked body.
    Malformed,
}

impl Default for ChunkedBody {
    fn default() -> Self {
        Self {
            part: Part::Size,
            left: 0,
        }
    }
}

impl ChunkedBody {
    /// Processes received bytes, up to the end of the body.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Progress {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if self.part == Part::Data {
                let part = usize::try_from(self.left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len() - at);
                self.left = self.left.saturating_sub(part as u64);
                at += part;
                if self.left == 0 {
                    self.part = Part::DataReturn;
                }
                continue;
            }
            at += 1;
            if (self.part, *byte) == (Part::End, b'\n') {
                return Progress::Ended(at);
            }
            match self.next(*byte) {
                Some(part) => self.part = part,
                None => return Progress::Malformed,
            }
        }
        Progress::Inside
    }

    /// What follows a byte outside data; `None` if the byte is not allowed here.
    fn next(&mut self, byte: u8) -> Option<Part> {
        let digit = char::from(byte).to_digit(16).map(u64::from);
        Some(match (self.part, byte) {
            (Part::Size, _) => {
                self.left = digit?;
                Part::Digits
            }
            (Part::Digits, _) if digit.is_some() => {
                self.left = self.left.checked_mul(16)?.checked_add(digit?)?;
                Part::Digits
            }
            (Part::Digits | Part::Blank, b'\t' | b' ') => Part::Blank,
            (Part::Digits | Part::Blank, b';') => Part::Extension,
            (Part::Digits | Part::Blank | Part::Extension, b'\r') => Part::SizeEnd,
            (Part::Extension, b'\t' | b' '..=b'~' | 0x80..) => Part::Extension,
            (Part::SizeEnd, b'\n') if self.left > 0 => Part::Data,
            (Part::SizeEnd, b'\n') => Part::Last,
            (Part::DataReturn, b'\r') => Part::DataEnd,
            (Part::DataEnd, b'\n') => Part::Size,
            (Part::Last, b'\r') => Part::End,
            (Part::Trailer, b'\r') => Part::TrailerEnd,
            (Part::Last | Part::Trailer, _) => Part::Trailer,
            (Part::TrailerEnd, b'\n') => Part::Last,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(body: &str, step: usize) -> Progress {
        let (mut chunks, mut before) = (ChunkedBody::default(), 0);
        for part in body.as_bytes().chunks(step) {
            match chunks.take(part) {
                Progress::Inside => before += part.len(),
                Progress::Ended(at) => return Progress::Ended(before + at),
                Progress::Malformed => return Progress::Malformed,
            }
        }
        Progress::Inside
    }

    #[test]
    fn chunked_bodies_end_behind_trailers() {
        let bodies = [
            "0\r\n\r\n",
            "3\r\nabc\r\n0\r\n\r\n",
            "00A \t; name=\"a\"\r\n0123\r\n\r\n56\r\n0;last\r\nx: y\r\nz:\nstill z\r\n\r\n",
            "1\r\n0\r\n1\r\n\r\r\n0\r\n\r\n",
        ];
        for body in bodies {
            for step in [1, 2, 3, 7, 100] {
                assert_eq!(
                    followed(&format!("{body}GET /"), step),
                    Progress::Ended(body.len()),
                    "{body:?} {step}"
                );
                assert_eq!(
                    followed(&body[..body.len() - 1], step),
                    Progress::Inside,
                    "{body:?} {step}"
                );
            }
        }
    }

    #[test]
    fn other_bodies_are_malformed() {
        for body in [
            "\r\n",
            "x",
            "1\n",
            "1\r\nab",
            "1\r\na\n",
            "1 2\r\n",
            "1;\x01",
            "fffffffffffffffff\r\n",
            "0\r\n\rx",
            "0\r\nx\rx",
            "0\rx",
        ] {
            assert_eq!(followed(body, 1), Progress::Malformed, "{body:?}");
        }
    }
}
