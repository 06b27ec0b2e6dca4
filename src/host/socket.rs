//! The way to a controller that runs: a socket beside its data file that only the owner of the file can open.
//!
//! One connection carries one command and its answer, each a line of JSON.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{Command, Host};
use crate::store;

/// A command is no longer than this.
const LONGEST: u64 = 64 * 1024;
/// Either side gives up on the other after this.
const PATIENCE: Duration = Duration::from_secs(30);

/// The answer to a command.
#[derive(Serialize, Deserialize)]
enum Told {
    Done(Vec<String>),
    Refused(String),
}

/// Where the socket of a data file is.
pub fn beside(data: &Path) -> PathBuf {
    store::beside(data, ".sock")
}

/// A socket that is listened on; it is gone when this is dropped.
pub struct Listening {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Listens for commands on a thread of its own. Whoever holds the data file may take the place of a socket left behind.
///
/// # Errors
/// The socket cannot be made.
pub fn listen(host: Host, path: PathBuf) -> io::Result<Listening> {
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let serve = move || {
        for connection in listener.incoming() {
            if stopped.load(Ordering::Acquire) {
                return;
            }
            if let Err(error) = connection.and_then(|stream| answer(&host, stream)) {
                tracing::debug!(%error, "a command of the host broke off");
            }
        }
    };
    let thread = thread::Builder::new().name("host".into()).spawn(serve)?;
    Ok(Listening { path, stop, thread: Some(thread) })
}

fn answer(host: &Host, mut stream: UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let command = line((&stream).take(LONGEST))?;
    let told = match serde_json::from_str::<Command>(&command) {
        Ok(command) => host.act(command).map_or_else(|error| Told::Refused(error.to_string()), Told::Done),
        Err(_) => Told::Refused("this controller does not know the command".into()),
    };
    writeln!(stream, "{}", serde_json::to_string(&told)?)
}

fn line(stream: impl Read) -> io::Result<String> {
    let mut text = String::new();
    BufReader::new(stream).read_line(&mut text)?;
    Ok(text)
}

/// Has a command done by the controller that runs on this socket. `None`: none does.
///
/// # Errors
/// What the controller refuses, or that it does not answer.
pub fn ask(path: &Path, command: &Command) -> Option<Result<Vec<String>, String>> {
    let stream = UnixStream::connect(path).ok()?;
    let asked = (|| {
        stream.set_read_timeout(Some(PATIENCE))?;
        writeln!(&stream, "{}", serde_json::to_string(command)?)?;
        line(&stream)
    })();
    let told = asked.and_then(|text| serde_json::from_str(&text).map_err(io::Error::from));
    Some(match told {
        Ok(Told::Done(lines)) => Ok(lines),
        Ok(Told::Refused(reason)) => Err(reason),
        Err(error) => Err(format!("the controller does not answer: {error}")),
    })
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread, which then sees that it is over. If somebody took the socket's name away, nothing can wake it, and waiting
        // for it would be for ever.
        let woken = UnixStream::connect(&self.path).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            drop(thread.join());
        }
        drop(fs::remove_file(&self.path));
    }
}
