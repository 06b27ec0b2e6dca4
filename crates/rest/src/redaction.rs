//! Answers without tokens of enrollments, sessions and authorities, for API tokens that must not
//! see them, and for callers that do not need them: the page shows sessions of others.

use actix_web::http::header::HeaderMap;
use futures_util::StreamExt;

use super::answer::{Content, Reply};

/// Members whose texts are left out.
const SECRET: [&[u8]; 5] = [
    b"token",
    b"jwt",
    b"enrollmentToken",
    b"enrollmentJwt",
    b"verificationToken",
];
/// The number of bytes kept of a text. It exceeds the length of every name in [`SECRET`].
const LONGEST: usize = 24;
/// The header of a request with which a caller asks for an answer without tokens, and its value.
const ASKED: (&str, &str) = ("overkeep-tokens", "hidden");

/// Whether a request asks for an answer without tokens.
pub(crate) fn is_asked(headers: &HeaderMap) -> bool {
    headers.get(ASKED.0).is_some_and(|value| value == ASKED.1)
}

/// The same reply with empty texts in place of tokens.
pub(crate) fn without_tokens(reply: Reply) -> Reply {
    let mut scan = Scan::default();
    let body = match reply.body {
        Content::Whole(body) => scan.pass(&body).into(),
        Content::Constant(text) => Content::Constant(text),
        Content::Pieces(pieces, held) => Content::Pieces(
            Box::pin(
                pieces
                    .map(move |piece| piece.map(|piece| scan.pass(&piece)))
                    .filter(|piece| {
                        // A piece of a body is never empty.
                        let is_sent = piece.as_ref().map_or(true, |piece| !piece.is_empty());
                        async move { is_sent }
                    }),
            ),
            held,
        ),
    };
    Reply { body, ..reply }
}

/// The state of a scan of JSON text, which is passed in pieces.
#[derive(Default)]
struct Scan {
    in_text: bool,
    escaped: bool,
    /// The beginning of the last text: at most [`LONGEST`] bytes.
    last: Vec<u8>,
    /// Whether the last text was the name of a secret member whose value has not begun.
    is_named: bool,
    /// Whether the current text is a secret.
    is_secret: bool,
}

impl Scan {
    /// The piece without secrets.
    fn pass(&mut self, piece: &[u8]) -> Vec<u8> {
        piece
            .iter()
            .copied()
            .filter(|byte| self.shows(*byte))
            .collect()
    }

    /// Whether the next byte is shown.
    fn shows(&mut self, byte: u8) -> bool {
        if !self.in_text {
            match byte {
                b'"' => {
                    (self.in_text, self.is_secret, self.is_named) = (true, self.is_named, false);
                    self.last.clear();
                }
                b':' => self.is_named = SECRET.contains(&self.last.as_slice()),
                b' ' | b'\n' | b'\r' | b'\t' => {}
                _ => {
                    self.is_named = false;
                    self.last.clear();
                }
            }
            return true;
        }
        if self.escaped {
            self.escaped = false;
            self.note(byte);
            return !self.is_secret;
        }
        match byte {
            b'"' => {
                self.in_text = false;
                true
            }
            _ => {
                self.escaped = byte == b'\\';
                self.note(byte);
                !self.is_secret
            }
        }
    }

    fn note(&mut self, byte: u8) {
        if self.last.len() < LONGEST {
            self.last.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Scan;

    #[test]
    fn secrets_are_left_out_anywhere() {
        let whole =
            br#"{"jwt":"eyJ.a-b","a":["token","x"],"name":"the \"jwt\":\"x\" stays","token": "s\"t","enrollmentJwt":null,"tokens":"y","verificationToken":"v"}"#;
        let expected = r#"{"jwt":"","a":["token","x"],"name":"the \"jwt\":\"x\" stays","token": "","enrollmentJwt":null,"tokens":"y","verificationToken":""}"#;
        for size in 1..whole.len() {
            let mut scan = Scan::default();
            let seen: Vec<u8> = whole
                .chunks(size)
                .flat_map(|piece| scan.pass(piece))
                .collect();
            assert_eq!(String::from_utf8_lossy(&seen), expected, "{size}");
        }
    }
}
