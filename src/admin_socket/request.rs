//! Requests of the API over the admin socket, answered as the default administrator.
//!
//! The request is one line of JSON. The answer is lines of JSON: the head, pieces of the body in base64, and an end; while nothing
//! happens, a line says that the request is still worked on. A body of any length is held in pieces only.

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
use serde::{Deserialize, Serialize};

use super::connection::{PATIENCE, TICK, connect, line};
use crate::http::{Dispatcher, LocalPart, LocalRequest, answer_locally};

/// Parts of an answer that wait until they are written.
const WAITING: usize = 4;
/// Bytes of a body in one line.
const PIECE: usize = 256 << 10;

#[derive(Serialize, Deserialize)]
struct Asked {
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
    },
    /// Base64.
    Piece(String),
    End,
    /// The answer broke off.
    Broken(String),
}

/// The request in a line, if it is one.
pub fn read(line: &str) -> Option<LocalRequest> {
    serde_json::from_str::<Asked>(line).ok().map(|asked| asked.request)
}

/// Answers a request. Ends early when nobody reads any more, or the controller stops.
///
/// # Errors
/// The connection is gone.
pub fn answer(dispatcher: &Dispatcher, request: LocalRequest, stream: &mut UnixStream, stopped: &AtomicBool) -> io::Result<()> {
    let (method, path) = (&request.method, &request.path);
    if method == "GET" {
        tracing::debug!(method, path, "asked by the owner of the host");
    } else {
        tracing::info!(method, path, "asked by the owner of the host");
    }
    thread::scope(|scope| {
        let (out, parts) = mpsc::sync_channel(WAITING);
        scope.spawn(move || {
            let ended = answer_locally(dispatcher, request, &mut |part| out.send(Ok(part)).is_ok());
            if let Err(error) = ended {
                drop(out.send(Err(error.to_string())));
            }
        });
        // When this returns, `parts` is gone, and the thread ends at the next part that it has.
        written(parts, stream, stopped)
    })
}

fn written(parts: Receiver<Result<LocalPart, String>>, stream: &mut UnixStream, stopped: &AtomicBool) -> io::Result<()> {
    loop {
        match parts.recv_timeout(TICK) {
            Ok(Ok(LocalPart::Head { status, media })) => say(stream, &AnswerLine::Head { status, media })?,
            Ok(Ok(LocalPart::Piece(piece))) => {
                piece.chunks(PIECE).try_for_each(|part| say(stream, &AnswerLine::Piece(STANDARD.encode(part))))?;
            }
            Ok(Err(reason)) => return say(stream, &AnswerLine::Broken(reason)),
            Err(RecvTimeoutError::Timeout) if stopped.load(Ordering::Acquire) => {
                return say(stream, &AnswerLine::Broken("the controller stops".into()));
            }
            Err(RecvTimeoutError::Timeout) => say(stream, &AnswerLine::Working)?,
            Err(RecvTimeoutError::Disconnected) => return say(stream, &AnswerLine::End),
        }
    }
}

fn say(stream: &mut UnixStream, said: &AnswerLine) -> io::Result<()> {
    writeln!(stream, "{}", serde_json::to_string(said)?)
}

/// Has a request answered by the controller that listens on a socket. `take` is given the parts of the answer. `None`: nobody listens.
///
/// # Errors
/// The controller does not answer, or the answer broke off, or `take` fails.
pub fn ask(path: &Path, request: LocalRequest, take: &mut dyn FnMut(LocalPart) -> io::Result<()>) -> Option<io::Result<()>> {
    let stream = connect(path).ok()?;
    Some((|| {
        stream.set_read_timeout(Some(PATIENCE))?;
        writeln!(&stream, "{}", serde_json::to_string(&Asked { request })?)?;
        let mut answer = BufReader::new(&stream);
        loop {
            match serde_json::from_str(&line(&mut answer)?)? {
                AnswerLine::Working => (),
                AnswerLine::Head { status, media } => take(LocalPart::Head { status, media })?,
                AnswerLine::Piece(text) => take(LocalPart::Piece(STANDARD.decode(text).map_err(io::Error::other)?))?,
                AnswerLine::End => return Ok(()),
                AnswerLine::Broken(reason) => return Err(io::Error::other(reason)),
            }
        }
    })())
}
