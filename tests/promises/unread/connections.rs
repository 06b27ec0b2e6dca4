//! Clients that do not read what they asked for.

use super::*;

/// Longer than a client that does not read may occupy a connection.
const LONG: Duration = Duration::from_secs(20);

/// The lowest permitted bound of all connections together, in bytes.
const TOTAL: usize = 16 << 20;

/// Memory of an idle connection, in bytes.
const IDLE: usize = 64 << 10;

/// An initial window larger than any answer here.
const LARGE_WINDOW: [u8; 4] = 10_000_000_u32.to_be_bytes();

/// An HTTP/2 request that accepts gzip.
fn gzip_request(path: &str, stream: u32) -> Vec<u8> {
    let length = u8::try_from(path.len()).unwrap();
    frame(
        1,
        5,
        stream,
        &[
            b"\x82\x87\x44",
            &[length][..],
            path.as_bytes(),
            b"\x41\x02it\x90",
        ]
        .concat(),
    )
}

/// An HTTP/2 connection that sends the same request many times and reads nothing.
fn non_reader(to: &Caller, path: &str, times: u32) -> Wire {
    let mut wire = Wire::multiplexed(to, 0);
    for stream in 0..times {
        if wire.send(&gzip_request(path, 2 * stream + 1)).is_err() {
            break;
        }
    }
    wire
}

#[test]
fn unread_http2_answers_stay_small() {
    let directory = TempDir::new().unwrap();
    let program = program(directory.path(), &[]);
    let admin = program.admin();
    admin
        .ask("GET", "/openapi.json")
        .header("accept-encoding", "gzip")
        .send()
        .expect(200);
    let (before, _) = memory(&program);
    for path in ["/edge/management/v1/openapi.json", "/version"] {
        let mut non_reader: Vec<Wire> = (0..10).map(|_| non_reader(&admin, path, 128)).collect();
        admin.get("/current-identity").expect(200);
        thread::sleep(Duration::from_secs(1));
        let (now, most) = memory(&program);
        assert!(
            most.max(now) - before < 48,
            "{path}: {before} MiB before, {now} now, {most} at most"
        );
        let first = &mut non_reader[0];
        first
            .socket()
            .set_read_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        assert_eq!(
            first.frames().iter().filter(|(kind, _)| *kind == 1).count(),
            128,
            "each answer has sent its head and waits for window"
        );
    }
}

#[test]
fn excess_requests_are_cut_off() {
    let server = TestServer::start().unlinked();
    let frames = non_reader(&server.admin, "/version", 900).frames();
    let count = |kind: u8| frames.iter().filter(|frame| frame.0 == kind).count();
    assert!(
        count(7) == 1 && count(1) <= 128 && count(3) <= 129,
        "{} answers, {} refusals",
        count(1),
        count(3)
    );
}

#[test]
fn many_non_readers_stay_bounded() {
    let directory = TempDir::new().unwrap();
    let program = program(
        directory.path(),
        &[("OVERKEEP_HTTP_MAX_UNREAD_BYTES_TOTAL", &TOTAL.to_string())],
    );
    let admin = program.admin();
    let before = memory(&program).0;
    let mut non_reader: Vec<Wire> = (0..160)
        .map(|_| non_reader(&admin, "/version", 128))
        .collect();
    admin.get("/current-identity").expect(200);
    let (_, most) = memory(&program);
    // On top of the bound: the memory of idle connections, and freed memory that is returned to the
    // system later.
    let idle = (160 * IDLE) >> 20;
    assert!(
        most - before < 2 * (TOTAL >> 20) + idle,
        "{before} MiB before, {most} at most"
    );
    let first = &mut non_reader[0];
    assert!(first.read().1, "the first connections must be cut off");
}

#[test]
fn silent_clients_are_cut_off() {
    let server = TestServer::with(Clock::system(), |config| {
        config.http.unread_timeout = Span::seconds(1)
    })
    .unlinked();
    let mut silent = Wire::multiplexed(&server.admin, 0);
    silent.send(&asking_for("/version", 1)).unwrap();
    assert!(silent.read().1, "the connection must be cut off");
}

/// An HTTP/2 request with the session of a caller.
fn with_session(caller: &Caller, path: &str, stream: u32) -> Vec<u8> {
    let (path, token) = (
        format!("/edge/management/v1{path}"),
        caller.token.as_deref().unwrap(),
    );
    let [path_length, token_length] = [&path, token].map(|text| u8::try_from(text.len()).unwrap());
    let session = [b"\x00\x0azt-session", &[token_length][..], token.as_bytes()].concat();
    frame(
        1,
        5,
        stream,
        &[
            b"\x82\x87\x44",
            &[path_length][..],
            path.as_bytes(),
            b"\x41\x02it",
            &session,
        ]
        .concat(),
    )
}

#[test]
fn oldest_unread_answer_is_dropped() {
    let server = TestServer::with(Clock::system(), |config| {
        config.http.max_unread_bytes_total = TOTAL
    })
    .unlinked();
    let path = format!("/configs/{}", large_config(&server.admin, 800_000));
    let ask = || {
        let mut wire = Wire::multiplexed(&server.admin, 0);
        wire.send(&with_session(&server.admin, &path, 1)).unwrap();
        thread::sleep(Duration::from_millis(20));
        wire
    };
    let whole = |answer: &str| answer.matches("xxxxxxxx").count() >= 90_000;
    let mut unread: Vec<Wire> = (0..60).map(|_| ask()).collect();
    let reader_answer: Answer = server.admin.get(&path).expect(200);
    assert!(whole(&reader_answer.text));
    let last = unread.last_mut().unwrap();
    last.socket()
        .set_read_timeout(Some(Duration::from_secs(3)))
        .unwrap();
    last.send(&[frame(8, 0, 0, &LARGE_WINDOW), frame(8, 0, 1, &LARGE_WINDOW)].concat())
        .unwrap();
    assert!(whole(&last.read().0), "the newest answer must be complete");
    let cut_off = unread
        .iter_mut()
        .take(30)
        .map(Wire::read)
        .filter(|(_, closed)| *closed)
        .count();
    assert!(cut_off > 20, "{cut_off} of the 30 oldest");
}

#[test]
fn full_connection_waits_for_reading() {
    let server = TestServer::with(Clock::system(), |config| {
        config.http.max_unread_bytes = 65_536
    })
    .unlinked();
    let id = large_config(&server.admin, 200_000);
    let mut wire = Wire::multiplexed(&server.admin, 0);
    let first = with_session(&server.admin, &format!("/configs/{id}"), 1);
    wire.send(&[first, asking_for("/version", 3)].concat())
        .unwrap();
    wire.socket()
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let heads = |wire: &mut Wire| {
        wire.frames()
            .into_iter()
            .filter(|(kind, _)| *kind == 1)
            .map(|(_, stream)| stream)
            .collect::<Vec<_>>()
    };
    assert_eq!(heads(&mut wire), [1], "the second request waits");
    wire.send(
        &[
            frame(8, 0, 0, &LARGE_WINDOW),
            frame(8, 0, 1, &LARGE_WINDOW),
            frame(8, 0, 3, &LARGE_WINDOW),
        ]
        .concat(),
    )
    .unwrap();
    assert_eq!(
        heads(&mut wire),
        [3],
        "it is answered after the first answer was read"
    );
}

#[test]
fn endless_heads_are_counted() {
    let server = TestServer::with(Clock::system(), |config| {
        config.http.max_unread_bytes_total = TOTAL;
        config.http.client_timeout = Span::minutes(1);
        config.http.keep_alive = Span::minutes(1);
    })
    .unlinked();
    let incomplete = |is_http2: bool| {
        let mut wire = if is_http2 {
            Wire::multiplexed(&server.admin, 65_535)
        } else {
            Wire::to(&server.admin)
        };
        let bytes = match is_http2 {
            true => (0..7)
                .map(|n| frame(if n == 0 { 1 } else { 9 }, 0, 1, &[b'z'; 16_000]))
                .collect::<Vec<_>>()
                .concat(),
            false => [
                b"GET /version HTTP/1.1\r\nhost: it\r\nx-more: ".to_vec(),
                vec![b'z'; 112_000],
            ]
            .concat(),
        };
        wire.send(&bytes).unwrap();
        wire
    };
    for is_http2 in [false, true] {
        let mut incompletes: Vec<Wire> = (0..200).map(|_| incomplete(is_http2)).collect();
        server.admin.get("/current-identity").expect(200);
        assert!(
            incompletes[0].read().1,
            "the first of {}",
            if is_http2 { "HTTP/2" } else { "HTTP/1.1" }
        );
    }
}

#[test]
fn non_readers_do_not_delay_stop() {
    let directory = TempDir::new().unwrap();
    let settings = [
        ("OVERKEEP_HTTP_UNREAD_TIMEOUT", "10m"),
        ("OVERKEEP_HTTP_KEEP_ALIVE", "1h"),
        ("OVERKEEP_HTTP_CLIENT_TIMEOUT", "10m"),
        ("OVERKEEP_HTTP_REQUEST_TIMEOUT", "10m"),
    ];
    let mut program = program(
        directory.path(),
        &[&settings[..], &[("OVERKEEP_HTTP_HANDSHAKE_TIMEOUT", "1m")]].concat(),
    );
    let admin = program.admin();
    let mut idle = Wire::multiplexed(&admin, 65_535);
    idle.send(&asking_for("/version", 1)).unwrap();
    let mut unread = Wire::multiplexed(&admin, 0);
    unread.send(&asking_for("/version", 1)).unwrap();
    let mut full = Wire::to(&admin);
    full.send(&b"GET /edge/management/v1/openapi.json HTTP/1.1\r\nhost: it\r\n\r\n".repeat(16))
        .unwrap();
    let mut incomplete = Wire::to(&admin);
    incomplete
        .send(b"GET /version HTTP/1.1\r\nhost: it\r\nx-more: ")
        .unwrap();
    let mut half_body = Wire::to(&admin);
    let head = "POST /authenticate?method=password HTTP/1.1\r\nhost: it\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{";
    half_body.send(head.as_bytes()).unwrap();
    let silent = TcpStream::connect(admin.url.strip_prefix("https://").unwrap()).unwrap();
    thread::sleep(Duration::from_millis(500));
    let bytes = Instant::now();
    kill_process(Pid::from_child(&program.process), Signal::TERM).unwrap();
    assert!(program.process.wait().unwrap().success());
    assert!(bytes.elapsed() < LONG, "it took {:?}", bytes.elapsed());
    assert!(
        idle.frames().iter().any(|(kind, _)| *kind == 7),
        "an idle connection gets a GOAWAY frame"
    );
    drop((unread, full, incomplete, half_body, silent));
}

#[test]
fn running_request_finishes_before_stop() {
    let server = TestServer::start();
    let mut wire = Wire::multiplexed(&server.admin, 65_535);
    let body =
        serde_json::to_vec(&json!({ "username": "admin", "password": server.password })).unwrap();
    let path = b"/authenticate?method=password";
    let length = u8::try_from(path.len()).unwrap();
    let head = [
        b"\x83\x87\x44",
        &[length][..],
        path,
        b"\x41\x02it",
        b"\x5f\x10application/json",
    ]
    .concat();
    wire.send(&[frame(1, 4, 1, &head), frame(0, 0, 1, &body[..10])].concat())
        .unwrap();
    thread::sleep(Duration::from_millis(300));
    let ends = thread::spawn(move || server.closed());
    thread::sleep(Duration::from_millis(300));
    wire.send(&frame(0, 1, 1, &body[10..])).unwrap();
    let (answer_text, closed) = wire.read();
    assert!(answer_text.contains("\"token\"") && closed, "{answer_text}");
    drop(ends.join().unwrap());
}
