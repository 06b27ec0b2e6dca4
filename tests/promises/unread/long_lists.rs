//! Long lists that come in parts.

use super::*;

/// A request with the session of a caller, the last on its connection.
fn session_request(caller: &Caller, path: &str) -> Vec<u8> {
    let token = caller.token.as_deref().unwrap();
    format!("GET /edge/management/v1{path} HTTP/1.1\r\nhost: it\r\nconnection: close\r\nzt-session: {token}\r\n\r\n").into_bytes()
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
