//! HTTP/2 frames without content.

use crate::harness::{Wire, asking_for, frame, shared};

/// A request whose body is pending: `POST` to a path, without END_STREAM (RFC 9113 section 6.2).
fn posting(stream: u32) -> Vec<u8> {
    let mut head = asking_for("/edge/client/v1/authenticate?method=cert", stream);
    // Only the flag END_HEADERS, and the second method of the static table.
    (head[4], head[9]) = (4, 0x83);
    head
}

/// RUSTSEC-2026-0258: each empty frame took memory, without a limit.
#[test]
fn empty_data_frames_end_the_connection() {
    let mut wire = Wire::multiplexed(&shared().admin, 65_535);
    wire.send(&posting(1)).unwrap();
    let empty = frame(0, 0, 1, b"").repeat(100);
    let cut_off = (0..1000).any(|_| wire.send(&empty).is_err());
    assert!(
        cut_off || wire.read().1,
        "100000 empty frames were accepted"
    );
    shared().admin.get("/current-identity").expect(200);
}
