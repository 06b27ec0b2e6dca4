//! The body of an answer that is passed on as it arrives, such as events or a token. On a terminal,
//! characters that the terminal obeys or that nobody sees are escaped; a file or another program
//! gets the bytes.

use std::io::{self, IsTerminal, Stdout, Write};

use model::hidden_text::shown_lines;

/// Passes bytes on, as text if a person reads them.
pub(super) struct RawOutput<W> {
    to: W,
    is_terminal: bool,
    /// The beginning of a character whose end has not arrived.
    rest: Vec<u8>,
}

impl RawOutput<Stdout> {
    pub(super) fn stdout() -> Self {
        let to = io::stdout();
        let is_terminal = to.is_terminal();
        Self {
            to,
            is_terminal,
            rest: Vec::new(),
        }
    }
}

impl<W: Write> Write for RawOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.to.write(bytes);
        }
        self.rest.extend(bytes);
        let mut whole = std::mem::take(&mut self.rest);
        if let Err(error) = std::str::from_utf8(&whole)
            && error.error_len().is_none()
        {
            self.rest = whole.split_off(error.valid_up_to());
        }
        self.to
            .write_all(shown_lines(&String::from_utf8_lossy(&whole)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(parts: &[&[u8]], is_terminal: bool) -> Vec<u8> {
        let mut out = RawOutput {
            to: Vec::new(),
            is_terminal,
            rest: Vec::new(),
        };
        parts.iter().for_each(|part| out.write_all(part).unwrap());
        out.to
    }

    #[test]
    fn terminals_get_escapes() {
        let text = "data: b\u{fc}\u{1b}[31m\u{9b}0m\u{202e}\n".as_bytes();
        let pieces: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(
            String::from_utf8(written(&pieces, true)).unwrap(),
            "data: b\u{fc}\\u{1b}[31m\\u{9b}0m\\u{202e}\n"
        );
        assert_eq!(written(&pieces, false), text);
        // Bytes that are no text do not pass either.
        assert_eq!(
            String::from_utf8(written(&[b"a\x9b0m", b"\x80b"], true)).unwrap(),
            "a\u{fffd}0m\u{fffd}b"
        );
    }
}
