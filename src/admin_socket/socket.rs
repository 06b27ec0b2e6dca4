//! The admin socket of a running controller, beside its data file; only the owner of the file can
//! open it.
//!
//! A connection carries one command and its answer, each a line of JSON. While the command runs,
//! progress lines are sent. A client that disconnects stops its command, if the command can be
//! stopped. A line with the member `request` is an API request (`request.rs`).

use std::{
    fs::{self, File},
    io::{self, BufReader, Read, Write},
    os::unix::{
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rest::Dispatcher;
use rustix::{fs::OFlags, process::geteuid};
use serde::{Deserialize, Serialize};
use store::Progress;
use uuid::Uuid;

use super::{
    AdminContext, Command, Outcome,
    connection::{IO_TIMEOUT, PROGRESS_INTERVAL, connect, descriptor_path, read_line},
    request,
};

/// The maximum bytes of a request line. A request with a longer body must be sent over HTTPS.
const MAX_REQUEST: u64 = 16 << 20;
/// A client must send its command within this time, so that an idle connection does not delay a
/// stop.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);

/// A line of the answer to a command.
#[derive(Serialize, Deserialize)]
enum AnswerLine {
    /// Rows done, rows in total.
    Going(u64, u64),
    Ended(Outcome),
    Refused(String),
}

/// The path of the socket of a data file. For a symbolic link the socket is beside its target, even
/// if the target no longer exists.
pub fn beside(data: &Path) -> PathBuf {
    let broken_target = || {
        fs::read_link(data)
            .ok()
            .map(|target| data.parent().unwrap_or(Path::new("")).join(target))
    };
    let real = if data.is_symlink() {
        fs::canonicalize(data).ok().or_else(broken_target)
    } else {
        None
    };
    store::beside(real.as_deref().unwrap_or(data), ".sock")
}

/// Whether a running controller listens on a socket.
pub fn answers(path: &Path) -> bool {
    connect(path).is_ok()
}

/// A listening socket; dropping it removes the socket.
pub struct Listening {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Listens for commands on its own thread. Replaces a socket that an earlier process left behind.
/// This is safe because the caller has locked the data file.
///
/// # Errors
/// The socket cannot be created.
pub fn listen(
    host: AdminContext,
    dispatcher: Arc<Dispatcher>,
    path: PathBuf,
) -> io::Result<Listening> {
    let listener = bind_private(&path)?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let serve = move || {
        thread::scope(|scope| {
            for connection in listener.incoming() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                scope.spawn(|| {
                    if let Err(error) = connection.and_then(|stream| answer(&host, &dispatcher, stream, &stopped)) {
                        tracing::debug!(%error, "a connection to the admin socket ended with an error");
                    }
                });
            }
        });
    };
    let thread = thread::Builder::new().name("host".into()).spawn(serve)?;
    Ok(Listening {
        path,
        stop,
        thread: Some(thread),
    })
}

/// Binds a socket that only its owner can open from the first moment: it gets its permissions in a
/// private directory and is then renamed to its path, replacing one left behind.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let directory = path.with_file_name(format!(".{:.8}", Uuid::new_v4().simple().to_string()));
    fs::DirBuilder::new().mode(0o700).create(&directory)?;
    let listener = own_directory(&directory).and_then(|opened| {
        let inside = descriptor_path(&opened).join("s");
        let listener = UnixListener::bind(&inside).and_then(|listener| {
            fs::set_permissions(&inside, fs::Permissions::from_mode(0o600))?;
            fs::rename(&inside, path)?;
            Ok(listener)
        });
        drop(fs::remove_file(&inside));
        listener
    });
    drop(fs::remove_dir(&directory));
    listener
}

/// Opens a directory that was just created. If others may write in its parent directory, they may
/// have replaced it by another directory or by a link.
fn own_directory(path: &Path) -> io::Result<File> {
    let flags = i32::try_from((OFlags::DIRECTORY | OFlags::NOFOLLOW).bits()).unwrap_or_default();
    let opened = fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let found = opened.metadata()?;
    let is_ours = found.uid() == geteuid().as_raw() && found.mode().trailing_zeros() >= 6;
    if is_ours {
        Ok(opened)
    } else {
        Err(io::Error::other(
            "the directory of the socket was replaced by somebody else",
        ))
    }
}

fn answer(
    host: &AdminContext,
    dispatcher: &Dispatcher,
    mut stream: UnixStream,
    stopped: &AtomicBool,
) -> io::Result<()> {
    stream.set_read_timeout(Some(COMMAND_TIMEOUT))?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    let line = read_line(&mut BufReader::new((&stream).take(MAX_REQUEST)))?;
    if line.len() as u64 >= MAX_REQUEST {
        return write_line(
            &mut stream,
            &AnswerLine::Refused(format!("the request is longer than {MAX_REQUEST} bytes")),
        );
    }
    if let Some(request) = request::read(&line) {
        return request::answer(dispatcher, request, &mut stream, stopped);
    }
    let reply = match serde_json::from_str::<Command>(&line) {
        Ok(command) => act(host, command, &mut stream, stopped),
        Err(_) => AnswerLine::Refused("this controller does not know the command".into()),
    };
    write_line(&mut stream, &reply)
}

/// Runs a command and sends its progress.
fn act(
    host: &AdminContext,
    command: Command,
    stream: &mut UnixStream,
    stopped: &AtomicBool,
) -> AnswerLine {
    let progress = Arc::new(Progress::default());
    thread::scope(|scope| {
        let (running, ended) = mpsc::channel::<()>();
        let for_thread = progress.clone();
        let done = scope.spawn(move || {
            let _running = running;
            host.act(command, &for_thread)
        });
        while ended.recv_timeout(PROGRESS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let (done, total) = progress.done_and_total();
            if stopped.load(Ordering::Acquire)
                || write_line(stream, &AnswerLine::Going(done, total)).is_err()
            {
                progress.stop();
            }
        }
        match done.join() {
            Ok(Ok(outcome)) => AnswerLine::Ended(outcome),
            Ok(Err(error)) => AnswerLine::Refused(error.to_string()),
            Err(_) => AnswerLine::Refused("the command panicked".into()),
        }
    })
}

fn write_line(stream: &mut UnixStream, reply: &AnswerLine) -> io::Result<()> {
    writeln!(stream, "{}", serde_json::to_string(reply)?)
}

/// Why a command has no outcome.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandFailure {
    /// The controller rejected the command, or could not carry it out; one line.
    #[error("{0}")]
    Refused(String),
    #[error("the controller does not answer: {0}")]
    NoAnswer(String),
}

impl From<io::Error> for CommandFailure {
    fn from(error: io::Error) -> Self {
        Self::NoAnswer(error.to_string())
    }
}

/// Sends a command to the controller that listens on a socket. `on_progress` receives the number of
/// rows done and in total. `None`: no controller listens.
///
/// # Errors
/// The controller rejected the command, or does not answer.
pub fn ask(
    path: &Path,
    command: &Command,
    on_progress: &mut dyn FnMut(u64, u64),
) -> Option<Result<Outcome, CommandFailure>> {
    let stream = connect(path).ok()?;
    Some((|| {
        stream.set_read_timeout(Some(IO_TIMEOUT))?;
        let line = serde_json::to_string(command).map_err(io::Error::from)?;
        writeln!(&stream, "{line}")?;
        let mut answer = BufReader::new(&stream);
        loop {
            match serde_json::from_str(&read_line(&mut answer)?).map_err(io::Error::from)? {
                AnswerLine::Going(done, total) => on_progress(done, total),
                AnswerLine::Ended(outcome) => return Ok(outcome),
                AnswerLine::Refused(reason) => return Err(CommandFailure::Refused(reason)),
            }
        }
    })())
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // The connection wakes the thread, which then ends. If the socket's path was removed,
        // nothing can wake the thread, and joining the thread would never return.
        let is_woken = connect(&self.path).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| is_woken) {
            drop(thread.join());
        }
        drop(fs::remove_file(&self.path));
    }
}
