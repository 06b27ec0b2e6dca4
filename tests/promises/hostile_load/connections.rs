//! Connections that send too much, too little, or do not read.

use super::*;

/// A login whose body is announced but incomplete.
const UNFINISHED: &[u8] = b"POST /authenticate?method=password HTTP/1.1\r\nhost: it\r\ncontent-type: application/json\r\n\
    content-length: 100\r\n\r\n{\"username\"";

/// Asserts the answer to a login whose body does not arrive.
fn too_slow(mut wire: Wire) {
    let (told, _) = wire.read();
    assert!(
        told.starts_with("HTTP/1.1 408")
            && told.contains("\"REQUEST_TIMEOUT\"")
            && told.contains("retry-after: "),
        "{told}"
    );
}

#[test]
fn missing_body_times_out() {
    let mut wire = Wire::to(&narrow().admin);
    wire.send(UNFINISHED).unwrap();
    too_slow(wire);
}

#[test]
fn missing_bodies_block_nobody() {
    let server = TestServer::with(Clock::system(), |config| {
        config.http.max_requests = 16;
        config.http.request_timeout = Span::seconds(60);
    })
    .unlinked();
    let begun = Instant::now();
    let mut slow = Vec::new();
    for _ in 0..48 {
        let mut wire = Wire::to(&server.admin);
        wire.send(UNFINISHED).unwrap();
        slow.push(wire);
        server.admin.get("/current-identity").expect(200);
    }
    server
        .anonymous()
        .log_in("admin", &server.password)
        .get("/current-identity")
        .expect(200);
    // The oldest ones were given up for the others.
    slow.into_iter().take(24).for_each(too_slow);
    assert!(
        begun.elapsed() < Duration::from_secs(50),
        "they must end before their time limit"
    );
}

#[test]
fn gone_clients_cost_no_work() {
    let server = TestServer::with(Clock::system(), |config| {
        config.http.max_requests = 16;
        (config.http.request_timeout, config.key_sets.timeout) =
            (Span::seconds(60), Span::seconds(60));
    })
    .unlinked();
    let (idp, keys) = (signer(), endpoint(AnswerMode::Silent));
    let issuer = json!({ "name": "idp", "issuer": "https://idp.test", "audience": "overkeep", "enabled": true, "jwksEndpoint": keys.url });
    server
        .admin
        .post("/external-jwt-signers", issuer)
        .expect(201);
    let now = server.clock.now().seconds();
    let token = idp.token(&json!({ "iss": "https://idp.test", "aud": "overkeep", "sub": "ann", "iat": now, "exp": now + 600 }));
    // Each waits for a key set that does not arrive.
    let login = format!(
        "POST /authenticate?method=ext-jwt HTTP/1.1\r\nhost: it\r\nauthorization: Bearer {token}\r\ncontent-length: 0\r\n\r\n"
    );
    let waiting: Vec<Wire> = (0..16).map(|_| Wire::to(&server.admin)).collect();
    let waiting = waiting
        .into_iter()
        .map(|mut wire| wire.send(login.as_bytes()).map(|()| wire).unwrap())
        .collect::<Vec<_>>();
    let becomes = |status: u16| {
        (0..1200).any(|_| {
            thread::sleep(Duration::from_millis(50));
            server.admin.get("/current-identity").status == status
        })
    };
    assert!(becomes(429), "sixteen requests are running");
    with_retry(
        &server
            .admin
            .get("/current-identity")
            .refused(429, "SERVER_TOO_MANY_REQUESTS", ""),
    );
    server.admin.get("//health").expect(200);
    waiting.into_iter().for_each(Wire::leave);
    assert!(becomes(200), "their slots must be free again");
}

#[test]
fn endless_head_times_out() {
    let mut wire = Wire::to(&narrow().admin);
    wire.send(b"GET /version HTTP/1.1\r\nhost: it\r\nx-more: ")
        .unwrap();
    let (told, closed) = wire.read();
    assert!(told.starts_with("HTTP/1.1 408") && closed, "{told}");
}

#[test]
fn huge_heads_and_bodies_are_refused() {
    let server = narrow();
    let huge = "x".repeat(8192);
    server
        .admin
        .ask("GET", "/identities")
        .header("x-huge", &huge)
        .send()
        .refused(431, "REQUEST_HEADER_FIELDS_TOO_LARGE", "");
    server
        .admin
        .get(&format!("/identities?filter={huge}"))
        .refused(414, "URI_TOO_LONG", "");
    server
        .admin
        .ask("GET", "/identities")
        .header("x-huge", &huge[..7000])
        .send()
        .expect(200);

    let padded = |bytes: usize| json!({ "username": "somebody", "password": PASSWORD, "padding": "x".repeat(bytes) });
    let anonymous = server.anonymous();
    anonymous
        .post("/authenticate?method=password", padded(20_000))
        .refused(413, "REQUEST_ENTITY_TOO_LARGE", "");
    anonymous
        .post("/authenticate?method=password", padded(10_000))
        .refused(401, "INVALID_AUTH", "");
    // A caller with a session may send a larger body. This one is read completely: the error names
    // the member that is too large.
    let config = server
        .admin
        .get("/config-types?filter=name%3D%22intercept.v1%22")
        .expect(200)
        .each("id")[0]
        .to_owned();
    let large = json!({ "name": fresh("large"), "configTypeId": config, "data": {
        "protocols": ["tcp"], "addresses": ["x".repeat(200_000)], "portRanges": [{ "low": 1, "high": 1 }]
    } });
    server.admin.post("/configs", large).expect(201);
}

#[test]
fn non_readers_are_cut_off() {
    let server = narrow();
    let mut wire = Wire::to(&server.admin);
    rustix::net::sockopt::set_socket_recv_buffer_size(wire.socket(), 4096).unwrap();
    let whole = server.admin.get("/openapi.json").expect(200).text.len();
    let asked = b"GET /edge/management/v1/openapi.json HTTP/1.1\r\nhost: it\r\n\r\n".repeat(8);
    wire.send(&asked).unwrap();
    thread::sleep(Duration::from_secs(4));
    let (told, closed) = wire.read();
    assert!(
        closed && told.len() < 8 * whole,
        "{} of {} bytes",
        told.len(),
        8 * whole
    );
}

#[test]
fn endless_http2_head_is_cut_off() {
    let mut wire = Wire::multiplexed(&narrow().admin, 65_535);
    // A value announced with 15 MiB, in parts.
    wire.send(&frame(
        1,
        1,
        1,
        b"\x82\x87\x84\x41\x02it\x00\x01a\x7f\x81\xff\xbf\x07",
    ))
    .unwrap();
    let sent = (0..100)
        .take_while(|_| wire.send(&frame(9, 0, 1, &[b'z'; 4096])).is_ok())
        .count();
    assert!(wire.read().1, "{sent} parts were taken");
}

#[test]
fn http2_non_readers_are_cut_off() {
    let (server, ping) = (narrow(), frame(6, 0, 0, &[7; 8]));
    let [mut takes, mut leaves] =
        [65_535, 0].map(|window| Wire::multiplexed(&server.admin, window));
    for wire in [&mut takes, &mut leaves] {
        wire.send(&asking_for("/version", 1)).unwrap();
    }
    thread::sleep(Duration::from_millis(2500));
    takes
        .socket()
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    takes
        .send(&[ping.clone(), asking_for("/version", 3)].concat())
        .unwrap();
    let (told, closed) = takes.read();
    assert!(
        told.matches("apiVersions").count() == 2 && !closed,
        "{told}"
    );
    drop(leaves.send(&ping));
    assert!(leaves.read().1);
}

#[test]
fn very_long_bodies_stay_cheap() {
    /// `encryptionRequired` in many spellings with different case.
    fn spelled(count: usize) -> String {
        let letter = |n: usize, at: usize, c: char| {
            if n >> at & 1 == 1 {
                c.to_ascii_uppercase()
            } else {
                c.to_ascii_lowercase()
            }
        };
        let name = |n: usize| {
            "encryptionrequired"
                .chars()
                .enumerate()
                .map(|(at, c)| letter(n, at, c))
                .collect::<String>()
        };
        let members: Vec<String> = (0..count)
            .map(|n| format!("\"{}\":true", name(n)))
            .collect();
        format!("{{{}}}", members.join(","))
    }
    let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
    let check = |versions: &str| json!({ "name": "c", "typeId": "OS", "operatingSystems": [{ "type": "Linux", "versions": [versions] }] });
    /// Operation, maximum count, and a function that makes a body with a given count.
    type Hostile<'b> = (&'b str, usize, &'b dyn Fn(usize) -> String);
    let bodies: [Hostile<'_>; 5] = [
        ("/posture-checks", 400_000, &|count| {
            format!(
                "{{\"name\":\"c\",\"typeId\":\"DOMAIN\",\"domains\":{}}}",
                list("0", count)
            )
        }),
        ("/edge/client/v1/posture-response-bulk", 300_000, &|count| {
            list("{}", count)
        }),
        ("/services", 400_000, &|count| {
            format!(
                "{{\"name\":\"s\",\"encryptionRequired\":true,\"roleAttributes\":{}}}",
                list("0", count)
            )
        }),
        ("/services", 40_000, &spelled),
        ("/posture-checks", 900_000, &|count| {
            check(&format!(">{}1.0.0", " ".repeat(count))).to_string()
        }),
    ];
    let place = TempDir::new().unwrap();
    let program = Program::start(place.path());
    let admin = program.admin();
    let peak = || {
        let status = fs::read_to_string(format!("/proc/{}/status", program.process.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .unwrap();
        line.trim()
            .trim_end_matches(" kB")
            .parse::<usize>()
            .unwrap()
            / 1024
    };
    let before = peak();
    for (path, most, body) in bodies {
        let took = |count: usize| {
            let (body, begun) = (body(count), Instant::now());
            let answer = admin
                .ask("POST", path)
                .body("application/json", body)
                .send();
            assert!(
                (200..300).contains(&answer.status) || answer.status == 400,
                "{path}: {}",
                answer.status
            );
            begun.elapsed()
        };
        // A slow run on a busy host is repeated.
        let is_flat = (0..5).any(|_| took(most) < 12 * took(most / 4) + Duration::from_millis(20));
        assert!(
            is_flat,
            "{path}: four times as much takes more than twelve times as long"
        );
    }
    assert!(peak() - before < 192, "{} MiB, and {before} before", peak());
}
