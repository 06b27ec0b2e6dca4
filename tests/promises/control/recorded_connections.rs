//! Connections of unmodified routers, by what the routers sent.

use wire::frame::Frame;

use super::recordings::{Recorded, decoded, frames_of, recorded, unpacked};

/// The messages of recorded connections of routers of a version, one list for each connection,
/// beginning with its hello.
pub fn connections_of(version: &str) -> Vec<Vec<Frame>> {
    let is_of_version = |connection: &Vec<Frame>| {
        connection[0]
            .text(4)
            .is_some_and(|text| text.starts_with(version))
    };
    connections(&recorded())
        .into_iter()
        .filter(is_of_version)
        .collect()
}

/// The same for one section of a file, which begins with a line of `#` and its name.
pub fn connections_in(data: &[u8], section: &str) -> Vec<Vec<Frame>> {
    let text = unpacked(data);
    let lines = text
        .lines()
        .skip_while(|line| line.strip_prefix("# ") != Some(section))
        .skip(1);
    let found = connections(&frames_of(lines.take_while(|line| !line.starts_with('#'))));
    assert!(!found.is_empty(), "no section {section}");
    found
}

fn connections(recorded: &[Recorded]) -> Vec<Vec<Frame>> {
    let mut connections: Vec<Vec<Frame>> = Vec::new();
    for frame in recorded
        .iter()
        .filter(|recorded| recorded.is_of_router)
        .map(decoded)
    {
        match connections.last_mut() {
            Some(connection) if frame.content_type() != 0 => connection.push(frame),
            _ => connections.push(vec![frame]),
        }
    }
    connections
}
