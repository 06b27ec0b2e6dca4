//! Frames that real routers and controllers exchanged round-trip through the codec.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use bytes::BytesMut;
use serde_json::Value as Json;
use wire::frame::{Builder, Frame, FrameLimits, value};

const LIMITS: FrameLimits = FrameLimits {
    headers: 1 << 20,
    body: 1 << 24,
};

/// The recordings, if they are beside the project.
fn recordings() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let beside = ["../shared", "../../shared"].map(|path| root.join(path));
    let given = env::var_os("OVERKEEP_SHARED").map(PathBuf::from);
    given
        .into_iter()
        .chain(beside)
        .map(|shared| shared.join("control-channel"))
        .find(|path| path.is_dir())
}

fn bytes(hex: &Json) -> Vec<u8> {
    let hex = hex.as_str().unwrap_or_default().as_bytes();
    hex.chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn number(json: &Json) -> i32 {
    i32::try_from(json.as_i64().unwrap()).unwrap()
}

#[test]
fn recorded_frames_round_trip() {
    let Some(recordings) = recordings() else {
        return println!("no recordings beside the project: recorded frames are left out");
    };
    let mut count = 0;
    for file in fs::read_dir(recordings)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        if file.extension().is_none_or(|ending| ending != "jsonl") {
            continue;
        }
        for line in fs::read_to_string(&file).unwrap().lines() {
            let recorded: Json = serde_json::from_str(line).unwrap();
            if recorded.get("hex_headers").is_none() {
                continue;
            }
            check(&recorded, &file.display().to_string());
            count += 1;
        }
    }
    assert!(count > 500, "{count} frames");
}

fn check(recorded: &Json, place: &str) {
    let (headers, body) = (
        bytes(&recorded["hex_headers"]),
        bytes(&recorded["hex_body"]),
    );
    let (content_type, sequence) = (number(&recorded["ct"]), number(&recorded["seq"]));
    let length = |bytes: &[u8]| i32::try_from(bytes.len()).unwrap().to_le_bytes();
    let head = [
        [3, 6, 9, 12],
        content_type.to_le_bytes(),
        sequence.to_le_bytes(),
        length(&headers),
        length(&body),
    ]
    .concat();
    let whole = [head, headers, body.clone()].concat();
    let frame = Frame::decode(BytesMut::from(&whole[..]), LIMITS)
        .unwrap_or_else(|e| panic!("{place}: {e}"));
    assert_eq!(
        (frame.content_type(), frame.sequence(), frame.body()),
        (content_type, sequence, &body[..]),
        "{place}"
    );
    let mut built = frame
        .headers()
        .fold(Builder::new(content_type), |builder, (key, value)| {
            builder.bytes(key, value)
        })
        .body(frame.body());
    built.set_sequence(sequence);
    assert_eq!(built.as_bytes(), whole, "{place}");
    for (key, shown) in recorded["headers"].as_object().into_iter().flatten() {
        let found = frame
            .header(key.parse().unwrap())
            .unwrap_or_else(|| panic!("{place}: no header {key}"));
        let is_same = match shown {
            Json::Number(number) => {
                let number = number
                    .as_i64()
                    .map_or_else(|| number.as_u64().unwrap(), |number| number as u64);
                number.to_le_bytes().starts_with(found) || found.is_empty()
            }
            Json::Bool(flag) => found == [u8::from(*flag)],
            Json::Array(texts) => {
                let texts: Vec<_> = texts.iter().map(|text| text.as_str().unwrap()).collect();
                value::texts(found) == Ok(texts.clone()) && value::of_texts(&texts) == found
            }
            // Headers of maps; the hello has protobuf messages instead.
            Json::Object(_) if content_type == 0 => !found.is_empty(),
            Json::Object(map) => {
                value::bytes_by_number(found).is_ok_and(|entries| entries.len() == map.len())
                    || value::texts_by_text(found).is_ok_and(|entries| entries.len() == map.len())
            }
            Json::String(text) => text
                .strip_prefix("0x")
                .map_or(found == text.as_bytes(), |hex| bytes(&hex.into()) == found),
            Json::Null => found.is_empty(),
        };
        assert!(
            is_same,
            "{place}: header {key} of {content_type} is {found:02x?}, recorded as {shown}"
        );
    }
}
