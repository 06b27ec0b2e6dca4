//! The way to a controller that runs: a socket beside its data file that only the owner of the file can open.
//!
//! One connection carries one command and its answer, each a line of JSON; while the answer is awaited, lines say how far it is. Who hangs
//! up stops what was asked for, where that can be stopped. A line with the member `request` is a request of the API (`request.rs`).

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

/// Bytes of a line that asks for something. A request with a longer body goes over HTTPS.
const LONGEST: u64 = 16 << 20;
/// Who connects has its command ready: one that does not say it must not hold up a stop.
const PROMPT: Duration = Duration::from_secs(2);

/// A line of the answer to a command.
#[derive(Serialize, Deserialize)]
enum AnswerLine {
    /// So many of so many rows are done.
    Going(u64, u64),
    Ended(Outcome),
    Refused(String),
}

/// Where the socket of a data file is. A link to the file is another name for it, and leads to the same place, even when the file is there no
/// more.
pub fn beside(data: &Path) -> PathBuf {
    let led = || fs::read_link(data).ok().map(|target| data.parent().unwrap_or(Path::new("")).join(target));
    let real = if data.is_symlink() { fs::canonicalize(data).ok().or_else(led) } else { None };
    store::beside(real.as_deref().unwrap_or(data), ".sock")
}

/// Whether a controller that runs listens on a socket.
pub fn answers(path: &Path) -> bool {
    connect(path).is_ok()
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
                        tracing::debug!(%error, "a command of the host broke off");
                    }
                });
            }
        });
    };
    let thread = thread::Builder::new().name("host".into()).spawn(serve)?;
    Ok(Listening { path, stop, thread: Some(thread) })
}

/// A socket that is only its owner's from the first moment: it gets its rights in a directory that nobody else can enter, and its place,
/// which one left behind may still have, after that.
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

/// Opens a directory that was just made. Where others may write they can have put another, or a link, in its place.
fn own_directory(path: &Path) -> io::Result<File> {
    let flags = i32::try_from((OFlags::DIRECTORY | OFlags::NOFOLLOW).bits()).unwrap_or_default();
    let held = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = held.metadata()?;
    let is_ours = found.uid() == geteuid().as_raw() && found.mode().trailing_zeros() >= 6;
    if is_ours { Ok(held) } else { Err(io::Error::other("somebody else has taken the place of a directory")) }
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

/// Has a command done, and says how far it is meanwhile.
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

/// Has a command done by the controller that runs on this socket. `see` is shown how many of how many rows are done. `None`: none runs.
///
/// # Errors
/// What the controller refuses, or that it does not answer.
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
        // Wakes the thread, which then sees that it is over. If somebody took the socket's name away, nothing can wake it, and waiting
        // for it would be for ever.
        let woken = connect(&self.path).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            drop(thread.join());
        }
        drop(fs::remove_file(&self.path));
    }
}
