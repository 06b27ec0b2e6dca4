//! Clients that do not read their answers: the memory held for them is bounded, they are cut off,
//! and they delay nobody else.

use std::{
    fs,
    net::TcpStream,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use overkeep::testing::{clock::Clock, config::Span};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Answer, Caller, Program, TestServer, Wire, asking_for, frame, fresh};

/// Longer than a client that does not read may occupy a connection.
const LONG: Duration = Duration::from_secs(20);
/// The lowest permitted bound of all connections together, in bytes.
const TOTAL: usize = 16 << 20;
/// Memory of an idle connection, in bytes.
const IDLE: usize = 64 << 10;
/// An initial window larger than any answer here.
const LARGE_WINDOW: [u8; 4] = 10_000_000_u32.to_be_bytes();

/// Resident memory of a process, now and at its peak, in MiB.
fn memory(program: &Program) -> (usize, usize) {
    let status = fs::read_to_string(format!("/proc/{}/status", program.process.id())).unwrap();
    let of = |name: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        line.trim()
            .trim_end_matches(" kB")
            .parse::<usize>()
            .unwrap()
            / 1024
    };
    (of("VmRSS:"), of("VmHWM:"))
}

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

/// A program with these settings.
fn program(directory: &Path, settings: &[(&str, &str)]) -> Program {
    let mut command = crate::harness::command(directory);
    command.envs(settings.iter().copied());
    Program::of(command.spawn().unwrap()).expect("it says where it listens")
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

/// Creates a config with this many bytes of data, of the type `fat`. Returns its id.
fn large_config(admin: &Caller, bytes: usize) -> String {
    let known = admin
        .get("/config-types?filter=name=%22fat%22")
        .expect(200)
        .json["data"][0]["id"]
        .as_str()
        .map(str::to_owned);
    let of = known.unwrap_or_else(|| {
        admin
            .post("/config-types", json!({ "name": "fat", "schema": {} }))
            .expect(201)
            .id()
    });
    let body =
        json!({ "name": fresh("fat"), "configTypeId": of, "data": { "fat": "x".repeat(bytes) } });
    admin.post("/configs", body).expect(201).id()
}

/// A request with the session of a caller, the last on its connection.
fn session_request(caller: &Caller, path: &str) -> Vec<u8> {
    let token = caller.token.as_deref().unwrap();
    format!("GET /edge/management/v1{path} HTTP/1.1\r\nhost: it\r\nconnection: close\r\nzt-session: {token}\r\n\r\n").into_bytes()
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

/// A chunked body without its chunk lengths (RFC 9112, section 7.1).
fn unchunked(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        text += &rest[..length];
        body = &rest[length + 2..];
    }
    text
}

/// The ids of the entries of a list.
fn ids(list: &serde_json::Value) -> Vec<String> {
    list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn full_list_streams_completely() {
    let directory = TempDir::new().unwrap();
    let program = program(
        directory.path(),
        &[
            ("OVERKEEP_STORE_CACHE_MIB", "2"),
            ("OVERKEEP_HTTP_UNREAD_TIMEOUT", "1m"),
        ],
    );
    let admin = program.admin();
    let mut stay: Vec<String> = (0..40).map(|_| large_config(&admin, 500_000)).collect();
    stay.sort();
    let (before, _) = memory(&program);
    let mut readers: Vec<Wire> = (0..3).map(|_| Wire::to(&admin)).collect();
    let [all, sorted, by_type] = [
        "/configs?limit=-1",
        "/configs?limit=-1&sort=name%20desc",
        "/configs?filter=name%20contains%20%22fat%22%20limit%20none",
    ];
    for (reader, path) in readers.iter_mut().zip([all, sorted, by_type]) {
        reader.send(&session_request(&admin, path)).unwrap();
    }
    thread::sleep(Duration::from_secs(2));
    let (_, most) = memory(&program);
    assert!(most - before < 40, "{before} MiB before, {most} at most");
    // Entries that exist during the whole read appear exactly once, whatever is written meanwhile.
    let gone = stay.split_off(34);
    for id in &gone {
        admin.delete(&format!("/configs/{id}")).expect(200);
        large_config(&admin, 100);
    }
    for reader in &mut readers {
        let (answer_text, closed) = reader.read();
        let list: serde_json::Value =
            serde_json::from_str(&unchunked(answer_text.split_once("\r\n\r\n").unwrap().1))
                .unwrap();
        let mut seen = ids(&list);
        seen.sort();
        seen.retain(|id| !gone.contains(id));
        assert!(closed && seen == stay, "{} of {}", seen.len(), stay.len());
        let page = &list["meta"]["pagination"];
        assert_eq!(
            (&page["totalCount"], &page["offset"]),
            (&json!(40), &json!(0))
        );
    }
}

#[test]
fn long_list_equals_its_pages() {
    let server = TestServer::start().unlinked();
    let configs: Vec<String> = (0..30)
        .map(|_| large_config(&server.admin, 40_000))
        .collect();
    for config in &configs {
        server.service(&fresh("fat"), json!({ "configs": [config] }));
    }
    let of = server
        .admin
        .get("/config-types?filter=name=%22fat%22")
        .expect(200)
        .json["data"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let client = Caller {
        base: crate::harness::Base::Client,
        ..server.admin.clone()
    };
    let below = format!("/config-types/{of}/configs?");
    let lists = [
        (&server.admin, "/configs?"),
        (&server.admin, "/configs?sort=name%20desc&"),
        (&server.admin, "/services?configTypes=all&"),
        (&client, "/services?configTypes=all&"),
        (&client, "/services?configTypes=all&sort=name&"),
        (&server.admin, &below),
    ];
    for (caller, path) in lists {
        let whole = caller
            .ask("GET", &format!("{path}limit=-1"))
            .header("accept-encoding", "gzip")
            .send()
            .expect(200);
        assert!(
            whole.text.len() > 1_000_000 && whole.header("content-encoding") == "gzip",
            "{path}: {} bytes",
            whole.text.len()
        );
        assert_eq!(
            caller.get(&format!("{path}limit=-1")).expect(200).json,
            whole.json,
            "{path}"
        );
        let mut entries = Vec::new();
        for offset in (0..30).step_by(4) {
            let page = caller
                .get(&format!("{path}limit=4&offset={offset}"))
                .expect(200);
            assert_eq!(page.json["meta"]["pagination"]["totalCount"], 30);
            entries.extend(page.json["data"].as_array().unwrap().clone());
        }
        assert_eq!(
            (
                &whole.json["data"],
                &whole.json["meta"]["pagination"]["totalCount"]
            ),
            (&json!(entries), &json!(30)),
            "{path}"
        );
    }
}

/// Whether a list was streamed in chunks, and its JSON.
fn streamed(caller: &Caller, path: &str) -> (bool, serde_json::Value) {
    let answer = caller.get(path).expect(200);
    (answer.header("content-length").is_empty(), answer.json)
}

#[test]
fn every_long_list_comes_in_parts() {
    let server = TestServer::start().unlinked();
    let (admin, long) = (&server.admin, "x".repeat(3000));
    let at = |base| Caller {
        base,
        ..admin.clone()
    };
    let (client, fabric, history) = (
        at(crate::harness::Base::Client),
        at(crate::harness::Base::Fabric),
        at(crate::harness::Base::Overkeep),
    );
    for n in 0..100 {
        let tags = json!({ "long": long });
        admin
            .post(
                "/transit-routers",
                json!({ "name": fresh("router"), "tags": tags }),
            )
            .expect(201);
        let service = json!({ "name": fresh("service"), "encryptionRequired": true, "tags": tags,
            "roleAttributes": (0..4).map(|of| format!("{n}-{of}-{}", &long[..900])).collect::<Vec<_>>() });
        admin.post("/services", service).expect(201);
        let signer = json!({ "name": fresh("idp"), "enabled": true, "issuer": fresh("https://idp"), "audience": "overlay",
            "jwksEndpoint": "https://idp.test/keys", "scopes": [long] });
        admin.post("/external-jwt-signers", signer).expect(201);
    }
    let lists: [(&Caller, &str, &str); 6] = [
        (admin, "/transit-routers?", "limit=-1"),
        (
            admin,
            "/service-role-attributes?",
            "filter=true%20limit%20none",
        ),
        (&client, "/external-jwt-signers?", "limit=-1"),
        (&fabric, "/routers?", "limit=-1"),
        (&fabric, "/services?", "limit=-1"),
        (&history, "/history?sort=sequence&", "limit=500"),
    ];
    for (caller, path, all) in lists {
        let (is_streamed, whole) = streamed(caller, &format!("{path}{all}"));
        let entries = whole["data"].as_array().unwrap();
        assert!(
            is_streamed && entries.len() >= 100,
            "{path}: {} entries",
            entries.len()
        );
        let page = |offset: usize| match all {
            "filter=true%20limit%20none" => {
                format!("{path}filter=true%20skip%20{offset}%20limit%2090")
            }
            _ => format!("{path}limit=90&offset={offset}"),
        };
        let mut pages = Vec::new();
        for offset in (0..entries.len()).step_by(90) {
            pages.extend(
                streamed(caller, &page(offset)).1["data"]
                    .as_array()
                    .unwrap()
                    .clone(),
            );
        }
        assert_eq!(&pages[..entries.len()], entries, "{path}");
    }
}

#[test]
fn lists_inside_answers_come_in_parts() {
    let server = TestServer::start().unlinked();
    let (admin, long) = (&server.admin, "x".repeat(3500));
    let of = large_config(admin, 10);
    let identity = server.identity(&fresh("identity"), json!({ "roleAttributes": ["all"] }));
    let mut pairs = Vec::new();
    for _ in 0..90 {
        let service = server.service(&fresh(&long), json!({ "roleAttributes": ["all"] }));
        pairs.push(json!({ "serviceId": service, "configId": of }));
        admin
            .post(
                "/edge-routers",
                json!({ "name": fresh(&long), "roleAttributes": ["all"] }),
            )
            .expect(201);
    }
    let path = format!("/identities/{identity}/service-configs");
    assert_eq!(
        admin.get(&path).expect(200).json["meta"]["pagination"],
        json!({ "limit": 0, "offset": 0, "totalCount": 0 })
    );
    admin.post(&path, json!(pairs)).expect(200);
    let (is_streamed, shown) = streamed(admin, &path);
    let entries: Vec<_> = shown["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| json!({ "serviceId": of["serviceId"], "configId": of["configId"] }))
        .collect();
    assert!(is_streamed && entries == pairs, "{} entries", entries.len());
    assert!(
        shown["data"][89]["service"]["name"]
            .as_str()
            .unwrap()
            .contains(&long)
            && shown["data"][89]["config"]["id"] == of
    );
    assert_eq!(
        shown["meta"]["pagination"],
        json!({ "limit": 90, "offset": 0, "totalCount": 90 })
    );

    for (path, member) in [
        ("/edge-router-policies", "identityRoles"),
        ("/service-edge-router-policies", "serviceRoles"),
    ] {
        let body = json!({ "name": fresh("policy"), "semantic": "AnyOf", "edgeRouterRoles": ["#all"], member: ["#all"] });
        admin.post(path, body).expect(201);
    }
    let service = pairs[0]["serviceId"].as_str().unwrap();
    let names = |routers: &serde_json::Value| {
        routers
            .as_array()
            .unwrap()
            .iter()
            .map(|router| router["name"].to_string())
            .collect::<Vec<_>>()
    };
    let (is_streamed, advice) = streamed(
        admin,
        &format!("/identities/{identity}/policy-advice/{service}"),
    );
    let advised = names(&advice["data"]["commonRouters"]);
    assert!(
        is_streamed && advised.len() == 90 && advice["data"]["identityId"] == identity.as_str(),
        "{} routers",
        advised.len()
    );

    server.give_password(&identity, "a-user-of-all");
    server.service_policy("Dial", &["#all"], &["#all"]);
    let user = server.log_in_again("a-user-of-all");
    let path = format!("/services/{service}/edge-routers");
    let (is_streamed, shown) = streamed(&user, &format!("{path}?limit=-1"));
    let mut all = names(&shown["data"]["edgeRouters"]);
    assert!(
        is_streamed && all.len() == 90 && shown["meta"]["apiVersion"].is_string(),
        "{} routers",
        all.len()
    );
    let pages: Vec<_> = [0, 50]
        .iter()
        .flat_map(|at| {
            names(
                &streamed(&user, &format!("{path}?limit=50&offset={at}")).1["data"]["edgeRouters"],
            )
        })
        .collect();
    assert_eq!(pages, all);
    let mut advised = advised;
    advised.sort();
    all.sort();
    assert_eq!(advised, all);
}
