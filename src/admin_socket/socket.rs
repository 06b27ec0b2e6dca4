//! The admin socket of a running controller, beside its data file; only the owner of the file can open it.
//!
//! A connection carries one command and its answer, each a line of JSON. While the command runs, progress lines are sent. A client that
//! disconnects stops its command, if the command can be stopped. A line with the member `request` is an API request (`request.rs`).

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

use rustix::{fs::OFlags, process::geteuid};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    AdminContext, Command, Outcome,
    connection::{PATIENCE, TICK, by_number, connect, line},
    request,
};
use crate::{
    http::Dispatcher,
    store::{self, Progress},
};

/// The maximum bytes of a request line. A request with a longer body must be sent over HTTPS.
const LONGEST: u64 = 16 << 20;
/// A client must send its command within this time, so that an idle connection does not delay a stop.
const PROMPT: Duration = Duration::from_secs(2);

/// A line of the answer to a command.
#[derive(Serialize, Deserialize)]
enum AnswerLine {
    /// Rows done, rows in total.
    Going(u64, u64),
    Ended(Outcome),
    Refused(String),
}

/// The path of the socket of a data file. For a symbolic link the socket is beside its target, even if the target no longer exists.
pub fn beside(data: &Path) -> PathBuf {
    let led = || fs::read_link(data).ok().map(|target| data.parent().unwrap_or(Path::new("")).join(target));
    let real = if data.is_symlink() { fs::canonicalize(data).ok().or_else(led) } else { None };
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

/// Listens for commands on its own thread. Replaces a socket left behind: the caller holds the data file.
///
/// # Errors
/// The socket cannot be created.
pub fn listen(host: AdminContext, dispatcher: Arc<Dispatcher>, path: PathBuf) -> io::Result<Listening> {
    let listener = bound(&path)?;
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
    Ok(Listening { path, stop, thread: Some(thread) })
}

/// Binds a socket that only its owner can open from the first moment: it gets its permissions in a private directory and is then renamed to
/// its path, replacing one left behind.
fn bound(path: &Path) -> io::Result<UnixListener> {
    let room = path.with_file_name(format!(".{:.8}", Uuid::new_v4().simple().to_string()));
    fs::DirBuilder::new().mode(0o700).create(&room)?;
    let made = own_directory(&room).and_then(|held| {
        let inside = by_number(&held).join("s");
        let made = UnixListener::bind(&inside).and_then(|listener| {
            fs::set_permissions(&inside, fs::Permissions::from_mode(0o600))?;
            fs::rename(&inside, path)?;
            Ok(listener)
        });
        drop(fs::remove_file(&inside));
        made
    });
    drop(fs::remove_dir(&room));
    made
}

/// Opens a directory that was just created. In a directory that others may write, it may have been replaced by another one or a link.
fn own_directory(path: &Path) -> io::Result<File> {
    let flags = i32::try_from((OFlags::DIRECTORY | OFlags::NOFOLLOW).bits()).unwrap_or_default();
    let held = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = held.metadata()?;
    let is_ours = found.uid() == geteuid().as_raw() && found.mode().trailing_zeros() >= 6;
    if is_ours { Ok(held) } else { Err(io::Error::other("the directory of the socket was replaced by somebody else")) }
}

fn answer(host: &AdminContext, dispatcher: &Dispatcher, mut stream: UnixStream, stopped: &AtomicBool) -> io::Result<()> {
    stream.set_read_timeout(Some(PROMPT))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let asked = line(&mut BufReader::new((&stream).take(LONGEST)))?;
    if asked.len() as u64 >= LONGEST {
        return say(&mut stream, &AnswerLine::Refused(format!("the request is longer than {LONGEST} bytes")));
    }
    if let Some(request) = request::read(&asked) {
        return request::answer(dispatcher, request, &mut stream, stopped);
    }
    let told = match serde_json::from_str::<Command>(&asked) {
        Ok(command) => act(host, command, &mut stream, stopped),
        Err(_) => AnswerLine::Refused("this controller does not know the command".into()),
    };
    say(&mut stream, &told)
}

/// Runs a command and sends its progress.
fn act(host: &AdminContext, command: Command, stream: &mut UnixStream, stopped: &AtomicBool) -> AnswerLine {
    let watch = Arc::new(Progress::default());
    thread::scope(|scope| {
        let (acting, ended) = mpsc::channel::<()>();
        let watched = watch.clone();
        let done = scope.spawn(move || {
            let _until_it_ends = acting;
            host.act(command, &watched)
        });
        while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            let (done, total) = watch.progress();
            if stopped.load(Ordering::Acquire) || say(stream, &AnswerLine::Going(done, total)).is_err() {
                watch.stop();
            }
        }
        match done.join() {
            Ok(Ok(outcome)) => AnswerLine::Ended(outcome),
            Ok(Err(error)) => AnswerLine::Refused(error.to_string()),
            Err(_) => AnswerLine::Refused("the command panicked".into()),
        }
    })
}

fn say(stream: &mut UnixStream, told: &AnswerLine) -> io::Result<()> {
    writeln!(stream, "{}", serde_json::to_string(told)?)
}

/// Sends a command to the controller that listens on a socket. `see` receives the rows done and in total. `None`: no controller listens.
///
/// # Errors
/// The reason why the controller rejected the command, or that it does not answer.
pub fn ask(path: &Path, command: &Command, see: &mut dyn FnMut(u64, u64)) -> Option<Result<Outcome, String>> {
    let stream = connect(path).ok()?;
    let asked = (|| {
        stream.set_read_timeout(Some(PATIENCE))?;
        writeln!(&stream, "{}", serde_json::to_string(command)?)?;
        let mut answer = BufReader::new(&stream);
        loop {
            match serde_json::from_str(&line(&mut answer)?)? {
                AnswerLine::Going(done, total) => see(done, total),
                AnswerLine::Ended(outcome) => return Ok(Ok(outcome)),
                AnswerLine::Refused(reason) => return Ok(Err(reason)),
            }
        }
    })();
    Some(asked.unwrap_or_else(|error: io::Error| Err(format!("the controller does not answer: {error}"))))
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread, which then ends. If the socket's path was removed, nothing can wake it, and joining it would never return.
        let woken = connect(&self.path).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            drop(thread.join());
        }
        drop(fs::remove_file(&self.path));
    }
}
