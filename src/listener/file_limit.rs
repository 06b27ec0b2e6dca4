//! For how many connections the system gives files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that are no connections: the data file, the log, sockets to key sets and whatever else.
const OTHER_FILES: usize = 128;
/// However few files the system allows, so many connections are tried.
const FEWEST: usize = 16;

/// For how many of these connections the system gives files. Raises the process's own limit as far as that is needed and allowed:
/// without a file for the next connection a listener can do nothing but try again.
pub fn room_for(connections: usize) -> usize {
    let needed = (connections + OTHER_FILES) as u64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let current = limit.maximum.map_or(needed, |most| most.min(needed));
        if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limit }) {
            tracing::debug!(%error, "the limit of open files stays");
        }
    }
    let files = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    let room = connections.min(files.saturating_sub(OTHER_FILES).max(FEWEST));
    if room < connections {
        tracing::warn!(files, room, connections, "the system gives files for fewer connections than http.max-connections");
    }
    room
}
