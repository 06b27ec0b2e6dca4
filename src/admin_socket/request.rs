//! API requests over the admin socket, answered as the default administrator.
//!
//! A request is one line of JSON. An answer is several lines of JSON: the head, pieces of the body
//! in base64, and an end. A `working` line is sent regularly while there is nothing else to send. A
//! body is never held whole in memory, only in pieces.

use std::{
    io::{self, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use model::error::Result;
use rest::{Dispatcher, LocalPart, LocalRequest, answer_locally};
use serde::{Deserialize, Serialize};

use super::connection::{IO_TIMEOUT, PROGRESS_INTERVAL, connect, read_line};

/// The number of answer parts that wait to be written.
const MAX_WAITING_PARTS: usize = 4;
/// Bytes of a body per line.
const MAX_PIECE: usize = 256 << 10;

#[derive(Serialize, Deserialize)]
struct RequestLine {
    request: LocalRequest,
}

/// A line of an answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AnswerLine {
    Working,
    Head {
        status: u16,
        media: String,
        #[serde(default)]
        tag: Option<String>,
        #[serde(default)]
        warnings: Vec<String>,
    },
    /// Base64.
    Piece(String),
    End,
    /// The answer was interrupted; the reason.
    Broken(String),
}

/// Parses a line as a request. Returns `None` if the line is not a request.
pub fn read(line: &str) -> Option<LocalRequest> {
    serde_json::from_str::<RequestLine>(line)
        .ok()
        .map(|parsed| parsed.request)
}

/// Answers a request. Ends early when the client disconnects or the controller stops.
///
/// # Errors
/// The connection failed.
pub fn answer(
    dispatcher: &Dispatcher,
    request: LocalRequest,
    stream: &mut UnixStream,
    stopped: &AtomicBool,
) -> io::Result<()> {
    let (method, path) = (&request.method, &request.path);
    if method == "GET" {
        tracing::debug!(method, path, "admin socket request");
    } else {
        tracing::info!(method, path, "admin socket request");
    }
    thread::scope(|scope| {
        let (out, parts) = mpsc::sync_channel(MAX_WAITING_PARTS);
        scope.spawn(move || {
            let result =
                answer_locally(dispatcher, request, &mut |part| out.send(Ok(part)).is_ok());
            if let Err(error) = result {
                drop(out.send(Err(error)));
            }
        });
        // When `write_answer` returns, `parts` is dropped, and the thread ends at its next attempt
        // to send a part.
        write_answer(parts, stream, stopped)
    })
}

fn write_answer(
    parts: Receiver<Result<LocalPart>>,
    stream: &mut UnixStream,
    stopped: &AtomicBool,
) -> io::Result<()> {
    loop {
        match parts.recv_timeout(PROGRESS_INTERVAL) {
            Ok(Ok(LocalPart::Head {
                status,
                media,
                tag,
                warnings,
            })) => {
                write_line(
                    stream,
                    &AnswerLine::Head {
                        status,
                        media,
                        tag,
                        warnings,
                    },
                )?;
            }
            Ok(Ok(LocalPart::Piece(piece))) => {
                piece.chunks(MAX_PIECE).try_for_each(|part| {
                    write_line(stream, &AnswerLine::Piece(STANDARD.encode(part)))
                })?;
            }
            Ok(Err(error)) => return write_line(stream, &AnswerLine::Broken(error.to_string())),
            Err(RecvTimeoutError::Timeout) if stopped.load(Ordering::Acquire) => {
                return write_line(stream, &AnswerLine::Broken("the controller stops".into()));
            }
            Err(RecvTimeoutError::Timeout) => write_line(stream, &AnswerLine::Working)?,
            Err(RecvTimeoutError::Disconnected) => return write_line(stream, &AnswerLine::End),
        }
    }
}

fn write_line(stream: &mut UnixStream, line: &AnswerLine) -> io::Result<()> {
    writeln!(stream, "{}", serde_json::to_string(line)?)
}

/// Sends a request to the controller that listens on a socket. `take` receives the parts of the
/// answer. `None`: no controller listens.
///
/// # Errors
/// The controller does not answer, the answer is interrupted, or `take` fails.
pub fn ask(
    path: &Path,
    request: LocalRequest,
    take: &mut dyn FnMut(LocalPart) -> io::Result<()>,
) -> Option<io::Result<()>> {
    let stream = connect(path).ok()?;
    Some((|| {
        stream.set_read_timeout(Some(IO_TIMEOUT))?;
        writeln!(
            &stream,
            "{}",
            serde_json::to_string(&RequestLine { request })?
        )?;
        let mut answer = BufReader::new(&stream);
        loop {
            match serde_json::from_str(&read_line(&mut answer)?)? {
                AnswerLine::Working => (),
                AnswerLine::Head {
                    status,
                    media,
                    tag,
                    warnings,
                } => take(LocalPart::Head {
                    status,
                    media,
                    tag,
                    warnings,
                })?,
                AnswerLine::Piece(text) => take(LocalPart::Piece(
                    STANDARD.decode(text).map_err(io::Error::other)?,
                ))?,
                AnswerLine::End => return Ok(()),
                AnswerLine::Broken(reason) => return Err(io::Error::other(reason)),
            }
        }
    })())
}
