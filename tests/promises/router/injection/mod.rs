//! What one end of a circuit cannot make the other one believe: only known header keys pass. SDKs
//! hand a message with the key of an answer to whoever waits for the answer with that number, and
//! trust their router with the other keys.

mod answers;
mod keys;

use std::collections::BTreeSet;

use wire::frame::{Builder, Frame, content, key as common};

use super::{
    scene::{Scene, run, soon},
    sdk::{Conn, Event, Host, Options, key, kind},
};

/// Keys that mean something to an SDK, in some message or other, and one that means nothing.
const FOREIGN: [i32; 28] = [
    -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 20, 24, 127, 129, 200, 255, 256, 1002, 1009,
    1012, 1024, 1026, 1028, 4711,
];

/// Adds foreign headers around the known ones, so that a known one is neither the first nor the
/// last.
fn around(known: impl Fn(Builder) -> Builder, kind: i32) -> Builder {
    let (before, after) = FOREIGN.split_at(FOREIGN.len() / 2);
    let with = |builder: Builder, keys: &[i32]| {
        keys.iter()
            .fold(builder, |builder, key| builder.u32(*key, 1))
    };
    with(known(with(Builder::new(kind), before)), after)
}

fn keys(frame: &Frame) -> BTreeSet<i32> {
    frame.headers().map(|(key, _)| key).collect()
}
