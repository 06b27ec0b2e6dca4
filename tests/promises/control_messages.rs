//! The messages of the control channel, as unmodified routers and a Go controller exchanged them.
//!
//! `tests/data/control-frames.txt.gz`, and `router-2.0.3-frames.txt.gz` in sections with names,
//! have one frame a line: `R` or `C` for who sent it, content type, sequence, and in hex the header
//! section and the body (`-`: empty). All keys and certificates in them are throw-away ones.

use std::io::Read;

use bytes::BytesMut;
use flate2::read::GzDecoder;
use prost::Message;
use wire::{
    control::{edge, fabric, metrics, model, tunnel},
    frame::{Builder, Frame, FrameLimits},
};

const LIMITS: FrameLimits = FrameLimits {
    headers: 1 << 20,
    body: 1 << 24,
};

struct Recorded {
    is_of_router: bool,
    bytes: Vec<u8>,
}

pub fn bytes(hex: &str) -> Vec<u8> {
    let hex = if hex == "-" { "" } else { hex };
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn recorded() -> Vec<Recorded> {
    let text = unpacked(include_bytes!("../data/control-frames.txt.gz"));
    frames_of(text.lines())
}

fn unpacked(data: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(data).read_to_string(&mut text).unwrap();
    text
}

fn frames_of<'l>(lines: impl Iterator<Item = &'l str>) -> Vec<Recorded> {
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

fn decoded(recorded: &Recorded) -> Frame {
    Frame::decode(BytesMut::from(&recorded.bytes[..]), LIMITS).unwrap()
}

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

fn again<M: Message + Default>(body: &[u8]) -> Vec<u8> {
    M::decode(body).unwrap().encode_to_vec()
}

/// The body read as its message and written again; none where it is no protobuf.
fn rewritten(content_type: i32, body: &[u8]) -> Option<Vec<u8>> {
    let rewrite: fn(&[u8]) -> Vec<u8> = match content_type {
        0 | 2 | 5 | -33 | 1022 | 20002 | 20210 | 20218 | 20219 | 20404 | 20410 | 20411 | 20506 => {
            return None;
        }
        1004 => again::<fabric::Fault>,
        1005 => again::<fabric::Route>,
        1006 => again::<fabric::Unroute>,
        1007 => again::<metrics::Metrics>,
        1013 => again::<fabric::InspectRequest>,
        1014 => again::<fabric::InspectResponse>,
        1020 => again::<fabric::Settings>,
        1034 => again::<fabric::CircuitConfirmation>,
        1035 => again::<fabric::RouterLinks>,
        1036 => again::<fabric::VerifyRouter>,
        1038 => again::<fabric::RemoveTerminators>,
        1041 => again::<fabric::ValidateTerminators>,
        1042 => again::<fabric::ValidateTerminatorsResponse>,
        1050 => again::<fabric::PeerStateChanges>,
        1052 => again::<fabric::RouterInterfaces>,
        1053 => again::<fabric::LinkStateUpdate>,
        20000 => again::<edge::ServerHello>,
        20001 => again::<edge::ClientHello>,
        20102 | 20202 => again::<edge::Removed>,
        20200 => again::<edge::ApiSessionAdded>,
        20201 => again::<edge::ApiSessionUpdated>,
        20203 => again::<edge::ApiSessionHeartbeat>,
        20204 => again::<edge::RequestResync>,
        20209 => again::<edge::UpdateTerminator>,
        20213 => again::<edge::ValidateSessions>,
        20216 => again::<edge::CreateTerminator>,
        20217 => again::<edge::CreateTerminatorResponse>,
        20301 => again::<edge::EnrollmentCertificates>,
        20302 => again::<edge::ExtendEnrollment>,
        20303 => again::<edge::ExtendEnrollmentVerify>,
        20400 => again::<tunnel::CreateApiSession>,
        20401 => again::<tunnel::CreateApiSessionResponse>,
        20405 => again::<tunnel::ServicesList>,
        20406 => again::<tunnel::CreateTerminator>,
        20407 => again::<tunnel::CreateTerminatorResponse>,
        20413 => again::<tunnel::CreateTerminatorV2>,
        20414 => again::<tunnel::CreateTerminatorV2Response>,
        20415 => again::<edge::ConnectEvents>,
        20500 => again::<model::DataState>,
        20501 => again::<model::ChangeSet>,
        20505 => again::<edge::SubscribeToDataModel>,
        other => panic!("content type {other} is not known"),
    };
    Some(rewrite(body))
}

#[test]
fn recorded_frames_keep_every_byte() {
    let all = recorded();
    assert!(all.len() > 600, "{} frames", all.len());
    for recorded in &all {
        let frame = decoded(recorded);
        let start = Builder::new(frame.content_type());
        let mut built = frame
            .headers()
            .fold(start, |builder, (key, value)| builder.bytes(key, value))
            .body(frame.body());
        built.set_sequence(frame.sequence());
        assert_eq!(built.as_bytes(), recorded.bytes);
    }
}

#[test]
fn recorded_bodies_keep_every_byte() {
    let mut count = 0;
    for recorded in recorded() {
        let frame = decoded(&recorded);
        if let Some(written) = rewritten(frame.content_type(), frame.body()) {
            assert_eq!(
                written,
                frame.body(),
                "content type {} of {}",
                frame.content_type(),
                recorded.is_of_router
            );
            count += 1;
        }
    }
    assert!(count > 300, "{count} bodies");
}

#[test]
fn recorded_listeners_keep_every_byte() {
    let mut count = 0;
    for frame in recorded()
        .iter()
        .map(decoded)
        .filter(|frame| frame.content_type() == 0)
    {
        let key = if frame.header(9).is_some() { 1000 } else { 10 };
        if let Some(listeners) = frame.header(key) {
            assert_eq!(again::<fabric::Listeners>(listeners), listeners);
            count += 1;
        }
        if let Some(metadata) = frame.header(11).filter(|_| frame.header(9).is_none()) {
            assert_eq!(again::<fabric::RouterMetadata>(metadata), metadata);
        }
    }
    assert!(count > 3, "{count} hellos");
}
