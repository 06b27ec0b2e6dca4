//! Tests of frames as seen on the wire, and of malformed bytes.

use bytes::BytesMut;
use proptest::prelude::*;

use super::*;

const LIMITS: FrameLimits = FrameLimits {
    headers: 4192,
    body: 4192,
};
/// Header keys and content types of SDK channels.
const CONNECTION: i32 = 1000;
const DIAL_SUCCESS: i32 = 60788;

fn hex(text: &str) -> BytesMut {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn own_messages_match_known_bytes() {
    let hello = Builder::new(0).empty();
    let mut answer = Builder::reply(content::RESULT, &hello)
        .flag(key::SUCCESS, true)
        .empty();
    answer.set_sequence(-1);
    let known = hex(
        "0306090c 02000000 ffffffff 15000000 00000000 01000000 04000000 00000000 02000000 01000000 01",
    );
    assert_eq!(answer.as_bytes(), known);

    let mut connect = Builder::new(60783).empty();
    connect.set_sequence(1);
    let mut connected = Builder::reply(60784, &connect)
        .u32(CONNECTION, 0)
        .text(1026, "c1")
        .empty();
    connected.set_sequence(7);
    let known = "0306090c 70ed0000 07000000 22000000 00000000 01000000 04000000 01000000 e8030000 04000000 00000000 02040000 02000000 6331";
    assert_eq!(connected.as_bytes(), hex(known));
}

#[test]
fn relayed_message_is_patched_in_place() {
    let received = hex(
        "0306090c 72ed0000 09000000 18000000 00000000 e8030000 04000000 01000000 f2030000 04000000 01000000",
    );
    let forwarded = hex(
        "0306090c 72ed0000 0c000000 18000000 00000000 e8030000 04000000 01000080 f2030000 04000000 01000000",
    );
    let mut frame = Frame::decode(received, LIMITS).unwrap();
    let before = frame.as_bytes().as_ptr();
    assert_eq!(
        (
            frame.content_type(),
            frame.sequence(),
            frame.u32(CONNECTION),
            frame.u32(1010)
        ),
        (60786, 9, Some(1), Some(1))
    );
    assert!(frame.set_u32(CONNECTION, 0x8000_0001));
    frame.set_sequence(12);
    assert_eq!(frame.as_bytes(), forwarded);
    assert_eq!(frame.as_bytes().as_ptr(), before);
    assert_eq!(frame.sequence(), 12);
    assert!(!frame.set_u32(4711, 0), "there is no such header");
}

#[test]
fn dropped_headers_take_no_memory() {
    let all = [
        (1, &b"abcd"[..]),
        (1000, b"1234"),
        (128, b""),
        (1010, b"wxyz"),
        (2, b"last"),
    ];
    let build = |headers: &[(i32, &[u8])]| {
        headers
            .iter()
            .fold(Builder::new(60786), |builder, (key, value)| {
                builder.bytes(*key, value)
            })
    };
    for keys in [
        &[1000, 1010][..],
        &[1],
        &[2],
        &[128],
        &[],
        &[1, 1000, 128, 1010, 2],
    ] {
        let kept: Vec<_> = all
            .into_iter()
            .filter(|(key, _)| keys.contains(key))
            .collect();
        let mut frame = build(&all).body(b"body");
        frame.retain_headers(|key, _| keys.contains(&key));
        assert_eq!(
            frame.as_bytes(),
            build(&kept).body(b"body").as_bytes(),
            "{keys:?}"
        );
        // A message of which the body has not arrived yet.
        let mut begun = build(&all).body(b"body").into_bytes();
        let head = Head::decode(begun.first_chunk().unwrap(), LIMITS).unwrap();
        begun.truncate(HEAD + head.headers);
        let mut begun = Frame::begin(head, begun).unwrap();
        begun.retain_headers(|key, value| keys.contains(&key) && value.len() <= 4);
        begun.put_u32(1000, 9);
        assert_eq!(begun.missing(), 4);
        begun.rest().put_slice(b"body and more"[..4].as_ref());
        assert_eq!(
            (begun.missing(), begun.body(), begun.u32(1000)),
            (0, &b"body"[..], Some(9))
        );
        assert_eq!(Frame::decode(begun.clone().into_bytes(), LIMITS), Ok(begun));
    }
    let mut stuffed = Builder::new(60786)
        .bytes(4711, &[0; 60 << 10])
        .u32(1000, 1)
        .body(b"body");
    stuffed.retain_headers(|key, _| key == 1000);
    stuffed.put_u32(1010, 1);
    assert!(stuffed.len() < 60 && stuffed.into_bytes().capacity() < 120);
}

#[test]
fn an_answer_names_what_it_answers() {
    let known = "0306090c 74ed0000 02000000 18000000 04000000 e8030000 04000000 00000000 01000000 04000000 02000000 01000000";
    let frame = Frame::decode(hex(known), LIMITS).unwrap();
    assert_eq!(
        (frame.content_type(), frame.reply_for(), frame.body()),
        (DIAL_SUCCESS, Some(2), &[1, 0, 0, 0][..])
    );
    assert_eq!(
        Builder::new(2).i32(key::REPLY_FOR, -1).empty().reply_for(),
        None,
        "-1 answers nothing"
    );
}

#[test]
fn answers_repeat_required_headers() {
    let probe = Builder::new(content::LATENCY)
        .u64(128, 77)
        .u32(127, 1)
        .u32(256, 1)
        .bytes(255, b"x")
        .empty();
    let answer = Builder::reply(content::RESULT, &probe).empty();
    assert_eq!(
        answer.headers().map(|(key, _)| key).collect::<Vec<_>>(),
        [1, 128, 255]
    );
    assert_eq!(answer.u64(128), Some(77));
}

#[test]
fn malformed_messages_are_distinguished() {
    let whole = || Builder::new(5).bytes(7, b"ab").body(b"body").into_bytes();
    let with = |at: usize, byte: u8| {
        let mut bytes = whole();
        bytes[at] = byte;
        Frame::decode(bytes, LIMITS)
    };
    assert_eq!(with(0, 4), Err(Malformed::Magic));
    assert_eq!(
        with(15, 0x80),
        Err(Malformed::Length {
            section: "header section",
            length: i32::MIN + 10,
            limit: 4192
        })
    );
    assert_eq!(
        with(18, 1),
        Err(Malformed::Length {
            section: "body",
            length: 65_540,
            limit: 4192
        })
    );
    assert_eq!(with(16, 3), Err(Malformed::Size(34)));
    assert_eq!(with(24, 3), Err(Malformed::Header(7)));
    assert_eq!(with(27, 0x80), Err(Malformed::Header(7)));
    assert_eq!(with(24, 1), Err(Malformed::Header(-1)));
    let short = BytesMut::from(&whole()[..19]);
    assert_eq!(Frame::decode(short, LIMITS), Err(Malformed::Size(19)));
    let twice = Builder::new(5)
        .flag(3, true)
        .flag(3, false)
        .empty()
        .into_bytes();
    assert_eq!(Frame::decode(twice, LIMITS), Err(Malformed::Repeated(3)));
    let many = (0..129)
        .fold(Builder::new(5), |builder, key| builder.bytes(key, b""))
        .empty()
        .into_bytes();
    assert_eq!(
        Frame::decode(many, LIMITS),
        Err(Malformed::TooManyHeaders {
            limit: super::headers::MAX_HEADERS
        })
    );
}

#[test]
fn lists_and_maps_round_trip() {
    assert_eq!(
        value::texts(&value::of_texts(&["a", ""])),
        Ok(vec!["a", ""])
    );
    assert_eq!(value::texts(&[]), Ok(vec![]));
    assert_eq!(
        value::bytes_by_number(&value::of_bytes_by_number(&[(1003, b"key")])),
        Ok(vec![(1003, &b"key"[..])])
    );
    assert_eq!(
        value::texts_by_text(&value::of_texts_by_text(&[("a", "b")])),
        Ok(vec![("a", "b")])
    );
    use value::NotAValue::{Bytes, Entries, Rest, Short, Utf8};
    assert_eq!(value::texts(&[1, 0]), Err(Short));
    assert_eq!(value::texts(&[129, 0, 0, 0]), Err(Entries(129)));
    assert_eq!(value::texts(&[1, 0, 0, 0, 1, 0x20, 0, 0]), Err(Bytes(8193)));
    assert_eq!(value::texts(&[1, 0, 0, 0, 1, 0, 0, 0]), Err(Short));
    assert_eq!(value::texts(&[1, 0, 0, 0, 1, 0, 0, 0, 0xff]), Err(Utf8));
    assert_eq!(value::texts(&[0, 0, 0, 0, 7]), Err(Rest(1)));
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let framed = [&MAGIC[..], &bytes].concat();
        for bytes in [bytes, framed] {
            if let Ok(frame) = Frame::decode(BytesMut::from(&bytes[..]), LIMITS) {
                prop_assert_eq!(frame.as_bytes(), &bytes[..]);
                prop_assert_eq!(frame.len(), bytes.len());
            }
        }
    }

    #[test]
    fn messages_round_trip(
        content_type in any::<i32>(), sequence in any::<i32>(),
        headers in proptest::collection::btree_map(any::<i32>(), proptest::collection::vec(any::<u8>(), 0..40), 0..20),
        body in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut built = headers.iter().fold(Builder::new(content_type), |builder, (key, value)| builder.bytes(*key, value)).body(&body);
        built.set_sequence(sequence);
        let read = Frame::decode(BytesMut::from(built.as_bytes()), LIMITS).unwrap();
        prop_assert_eq!(&read, &built);
        prop_assert_eq!((read.content_type(), read.sequence(), read.body()), (content_type, sequence, &body[..]));
        for (key, value) in &headers {
            prop_assert_eq!(read.header(*key), Some(&value[..]));
        }
    }

    #[test]
    fn any_headers_can_be_dropped(
        headers in proptest::collection::btree_map(any::<i32>(), proptest::collection::vec(any::<u8>(), 0..40), 0..20),
        body in proptest::collection::vec(any::<u8>(), 0..100), mask in any::<i32>(),
    ) {
        let keeps = |key: i32, value: &[u8]| (key ^ mask) % 3 != 0 && value.len().is_multiple_of(2);
        let with = |headers: Vec<(&i32, &Vec<u8>)>| {
            headers.into_iter().fold(Builder::new(1), |builder, (key, value)| builder.bytes(*key, value)).body(&body)
        };
        let mut frame = with(headers.iter().collect());
        frame.retain_headers(keeps);
        prop_assert_eq!(&frame, &with(headers.iter().filter(|(key, value)| keeps(**key, value)).collect()));
        let decoded = Frame::decode(BytesMut::from(frame.as_bytes()), LIMITS);
        prop_assert_eq!(decoded, Ok(frame));
    }

    #[test]
    fn changed_messages_never_panic(
        at in 0usize..60, byte in any::<u8>(), cut in 0usize..60,
    ) {
        let whole = Builder::new(60786).u32(1000, 1).u32(1001, 2).bytes(128, &[7; 16]).body(b"0123").into_bytes();
        let mut changed = whole.clone();
        if let Some(place) = changed.get_mut(at) {
            *place = byte;
        }
        let _ = Frame::decode(changed, LIMITS).map(|mut frame| frame.set_u32(1000, 9));
        let mut short = whole;
        short.truncate(cut);
        prop_assert!(Frame::decode(short.clone(), LIMITS).is_err() || cut >= 60, "{} bytes", short.len());
    }

    #[test]
    fn any_bytes_are_containers_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..64), count in 0u8..3) {
        let counted = [&[count, 0, 0, 0][..], &bytes].concat();
        for bytes in [bytes, counted] {
            if let Ok(texts) = value::texts(&bytes) {
                prop_assert!(texts.is_empty() || value::of_texts(&texts) == bytes);
            }
            if let Ok(map) = value::bytes_by_number(&bytes) {
                prop_assert!(map.is_empty() || value::of_bytes_by_number(&map) == bytes);
            }
            if let Ok(map) = value::texts_by_text(&bytes) {
                prop_assert!(map.is_empty() || value::of_texts_by_text(&map) == bytes);
            }
        }
    }
}
