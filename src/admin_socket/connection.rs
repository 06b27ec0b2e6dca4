//! Connections to the admin socket, whatever is said on them.

use std::{
    fs::File,
    io::{self, BufRead},
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

/// Every system takes the path of a socket that has no more bytes.
const SHORT: usize = 90;
/// Either side gives up on the other after this.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is said how far a command is.
pub const TICK: Duration = Duration::from_millis(200);

/// A path to what a number among the open files leads to, whatever names become of it.
pub fn by_number(held: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(held.as_raw_fd().to_string())
}

/// Does something to a socket by a path that the system takes, which is a short one: a long one is gone through the number of its directory
/// among the open files.
fn reach<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    match (path.parent(), path.file_name()) {
        (Some(directory), Some(name)) if path.as_os_str().len() > SHORT => {
            let directory = File::open(directory)?;
            act(&by_number(&directory).join(name))
        }
        _ => act(path),
    }
}

pub fn connect(path: &Path) -> io::Result<UnixStream> {
    reach(path, |path| UnixStream::connect(path))
}

pub fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut text = String::new();
    stream.read_line(&mut text)?;
    Ok(text)
}
