//! Messages of the control channel, as unmodified routers and a Go controller exchanged them.
//!
//! `tests/data/control-frames.txt.gz`, and `router-2.0.3-frames.txt.gz` in sections with names,
//! have one frame a line: `R` or `C` for who sent it, content type, sequence, and in hex the header
//! section and the body (`-`: empty). All keys and certificates in them are throw-away ones.

use std::io::Read;

use bytes::BytesMut;
use flate2::read::GzDecoder;
use wire::frame::{Frame, FrameLimits};

const LIMITS: FrameLimits = FrameLimits {
    headers: 1 << 20,
    body: 1 << 24,
};

pub struct Recorded {
    pub is_of_router: bool,
    pub bytes: Vec<u8>,
}

fn bytes(hex: &str) -> Vec<u8> {
    let hex = if hex == "-" { "" } else { hex };
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

pub fn recorded() -> Vec<Recorded> {
    let text = unpacked(include_bytes!("../../data/control-frames.txt.gz"));
    frames_of(text.lines())
}

pub fn unpacked(data: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(data).read_to_string(&mut text).unwrap();
    text
}

pub fn frames_of<'l>(lines: impl Iterator<Item = &'l str>) -> Vec<Recorded> {
    let frames = lines.map(|line| {
        let mut parts = line.split(' ');
        let mut next = || parts.next().unwrap();
        let (sender, content_type, sequence) = (
            next(),
            next().parse::<i32>().unwrap(),
            next().parse::<i32>().unwrap(),
        );
        let (headers, body) = (bytes(next()), bytes(next()));
        let length = |bytes: &[u8]| i32::try_from(bytes.len()).unwrap().to_le_bytes();
        let head = [
            [3, 6, 9, 12],
            content_type.to_le_bytes(),
            sequence.to_le_bytes(),
            length(&headers),
            length(&body),
        ]
        .concat();
        Recorded {
            is_of_router: sender == "R",
            bytes: [head, headers, body].concat(),
        }
    });
    frames.collect()
}

pub fn decoded(recorded: &Recorded) -> Frame {
    Frame::decode(BytesMut::from(&recorded.bytes[..]), LIMITS).unwrap()
}
