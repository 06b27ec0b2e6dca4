//! The guard between TLS and HTTP, and the targets of requests.

use super::*;

// Bytes on the wire before authentication.

const REQUESTS: [&str; 7] = [
    "GET /edge/client/v1/version?a=\"b\" HTTP/1.1\r\nhost: a\r\naccept-encoding: gzip\r\n\r\n",
    "POST /edge/client/v1/authenticate?method=password HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 35\r\n\r\n{\"username\":\"admin\",\"password\":\"x\"}",
    "POST /edge/client/v1/authenticate?method=password HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n",
    "GET /services HTTP/1.1\r\nhost: a\r\nzt-session: 00000000-0000-0000-0000-000000000000\r\ncookie: \"\"\r\n\r\n",
    "POST /enroll?method=ott&token=x HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-type: application/pkcs10\r\ncontent-length: 3\r\n\r\nabc",
    "OPTIONS /edge/management/v1/identities HTTP/1.1\r\nhost: a\r\norigin: https://a.example\r\naccess-control-request-method: GET\r\n\r\n",
    "\r\nHEAD / HTTP/1.0\r\nconnection: keep-alive\r\n\r\nGET /ready HTTP/1.1\r\nhost: a\r\nupgrade: h2c\r\n\r\n",
];

/// An HTTP/2 conversation, initially of complete frames.
fn frames(rng: &mut Rng) -> Vec<u8> {
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(frame(4, 0, 0, &[]));
    let block = b"\x82\x87\x44\x08/version\x41\x02it".as_slice();
    for n in 0..1 + rng.below(6) {
        let stream = (2 * n + 1) as u32;
        let part = block[..rng.below(block.len() + 1)].to_vec();
        sent.extend(match rng.below(8) {
            0..4 => frame(1, 5, stream, block),
            4 => [
                frame(1, 1, stream, &part),
                frame(9, 4, stream, &block[part.len()..]),
            ]
            .concat(),
            5 => [
                frame(1, 4, stream, block),
                frame(0, rng.below(16) as u8, stream, &part),
            ]
            .concat(),
            6 => frame(rng.below(12) as u8, rng.number() as u8, stream, &part),
            _ => frame(8, 0, 0, &(rng.number() as u32).to_be_bytes()),
        });
    }
    sent
}

#[test]
#[ignore = "endurance"]
fn the_guard_between_tls_and_http() {
    let server = TestServer::start();
    let anonymous = server.anonymous();
    target("the_guard_between_tls_and_http", 100, |rng| {
        let is_multiplexed = rng.percent(40);
        let mut sent = if is_multiplexed {
            frames(rng)
        } else {
            rng.pick(&REQUESTS).as_bytes().to_vec()
        };
        if rng.percent(90) {
            change(&mut sent, rng);
        }
        let mut wire = if is_multiplexed {
            Wire::bare(&anonymous, b"h2")
        } else {
            Wire::to(&anonymous)
        };
        let mut rest = sent.as_slice();
        while !rest.is_empty() {
            let (part, behind) =
                rest.split_at((1 + rng.below(rest.len().min(200))).min(rest.len()));
            if wire.send(part).is_err() {
                break;
            }
            rest = behind;
        }
        let answer = wire.finish();
        assert!(
            !answer.contains("HTTP/1.1 50"),
            "{:?}: {answer}",
            String::from_utf8_lossy(&sent)
        );
    });
    server.admin.get("/current-identity").expect(200);
}

#[test]
#[ignore = "endurance"]
fn request_targets() {
    const SIGNS: &[u8] = b"abc=&?/.,;:@!$'()*+-_~0\"<>\\^`{|}\xc3\xa4\xff\x80";
    let server = TestServer::start();
    let anonymous = server.anonymous();
    let status = |target: &[u8]| {
        let mut wire = Wire::to(&anonymous);
        wire.send(
            &[
                b"GET ",
                target,
                b" HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
            ]
            .concat(),
        )
        .unwrap();
        wire.finish()
            .split(' ')
            .nth(1)
            .unwrap_or_default()
            .to_owned()
    };
    target("request_targets", 50, |rng| {
        let signs: Vec<u8> = (0..rng.below(60)).map(|_| *rng.pick(SIGNS)).collect();
        let front = *rng.pick(&[
            "/",
            "/version?filter=",
            "/edge/client/v1/",
            "/edge/management/v1/identities/",
        ]);
        let raw = [front.as_bytes(), &signs].concat();
        let unfit = |byte: u8| {
            matches!(
                byte,
                b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | 0x80..
            )
        };
        let percent = |byte: &u8| {
            if unfit(*byte) {
                format!("%{byte:02X}").into_bytes()
            } else {
                vec![*byte]
            }
        };
        let sent: Vec<u8> = raw.iter().flat_map(percent).collect();
        let (one, other) = (status(&raw), status(&sent));
        assert!(
            one == other && !one.starts_with('5') && !one.is_empty(),
            "{:?}: {one} {other}",
            String::from_utf8_lossy(&raw)
        );
    });
}
