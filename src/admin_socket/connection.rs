//! Connections to the admin socket.

use std::{
    fs::File,
    io::{self, BufRead},
    os::{fd::AsRawFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    time::Duration,
};

/// The longest socket path in bytes that every system accepts.
const MAX_SOCKET_PATH: usize = 90;
/// The time limit for one read or write on a connection, on either side.
pub(crate) const IO_TIMEOUT: Duration = Duration::from_secs(30);
/// The interval of progress lines.
pub(crate) const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// A path to an open file by its descriptor number. The path stays valid when the file is renamed.
pub(crate) fn descriptor_path(file: &File) -> PathBuf {
    Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
}

/// Calls `act` with a path to a socket that is short enough for the system. A long path is reached
/// through the descriptor of its directory.
fn with_short_path<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    match (path.parent(), path.file_name()) {
        (Some(directory), Some(name)) if path.as_os_str().len() > MAX_SOCKET_PATH => {
            let directory = File::open(directory)?;
            act(&descriptor_path(&directory).join(name))
        }
        _ => act(path),
    }
}

pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    with_short_path(path, |path| UnixStream::connect(path))
}

pub(crate) fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut text = String::new();
    stream.read_line(&mut text)?;
    Ok(text)
}
