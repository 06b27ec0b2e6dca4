//! The number of connections that the limit of open files allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files other than connections: the data file, the log, connections to JWKS endpoints and
/// others.
const OTHER_FILES: usize = 128;
/// At least this many connections are allowed, however low the limit is.
const FEWEST: usize = 16;

/// How many of `connections` the limit of open files allows. Raises the process's soft limit as far
/// as needed and allowed: a listener without a free file descriptor can only retry.
pub(crate) fn room_for(connections: usize) -> usize {
    let needed = (connections + OTHER_FILES) as u64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let current = limit
            .maximum
            .map_or(needed, |max_count| max_count.min(needed));
        if let Err(error) = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(current),
                ..limit
            },
        ) {
            tracing::debug!(%error, "the limit of open files cannot be raised");
        }
    }
    let files = getrlimit(Resource::Nofile)
        .current
        .map_or(usize::MAX, |files| {
            usize::try_from(files).unwrap_or(usize::MAX)
        });
    let room = connections.min(files.saturating_sub(OTHER_FILES).max(FEWEST));
    if room < connections {
        tracing::warn!(
            files,
            room,
            connections,
            "the limit of open files allows fewer connections than http.max-connections: raise it (ulimit -n, LimitNOFILE) or lower the key"
        );
    }
    room
}
