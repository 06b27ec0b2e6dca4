//! What a reader of the history sees.

use super::*;

#[test]
fn administrators_read_the_history() {
    let server = TestServer::with_manual_clock();
    let history = |filter: &str, rest: &str| {
        server
            .admin
            .list("/overkeep/v1/history", filter, rest)
            .expect(200)
    };
    let dora = server.identity("dora", json!({ "roleAttributes": ["a"] }));
    server
        .admin
        .patch(
            &format!("/identities/{dora}"),
            json!({ "name": "theodora", "externalId": "d", "tags": { "x": "y" } }),
        )
        .expect(200);
    server
        .admin
        .delete(&format!("/identities/{dora}"))
        .expect(200);
    let own = server.admin.get("/current-api-session").expect(200);
    let told = history(&format!("id = \"{dora}\""), "&sort=sequence");
    assert_eq!(told.each("action"), ["create", "update", "delete"]);
    assert_eq!(told.each("name"), ["dora", "theodora", "theodora"]);
    let (id, name) = (&own.data()["identityId"], &own.data()["identity"]["name"]);
    let by = json!({ "who": "identity", "identity": id, "name": name, "session": own.id(), "address": "127.0.0.1" });
    assert!(
        told.data()
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["by"] == by),
        "{}",
        told.text
    );
    assert_eq!(
        history(&format!("id = \"{dora}\" and by.name = {name}"), "").total(),
        3
    );
    let made = &told.data()[0]["after"];
    assert_eq!(
        (&made["roleAttributes"], &made["isAdmin"]),
        (&json!(["a"]), &json!(false))
    );
    let empty = ["externalId", "appData", "serviceHostingCosts", "disabledAt"];
    assert!(
        empty.iter().all(|member| made.get(member).is_none()),
        "members without a value must be left out: {made}"
    );
    assert_eq!(
        told.data()[1]["before"],
        json!({ "name": "dora", "externalId": null })
    );
    assert_eq!(
        told.data()[1]["after"],
        json!({ "name": "theodora", "externalId": "d", "tags": { "x": "y" } })
    );
    assert_eq!(
        (
            &told.data()[2]["before"]["externalId"],
            told.data()[2]["before"].get("appData")
        ),
        (&json!("d"), None)
    );

    let newest = history("true limit none", "");
    assert_eq!(
        (newest.total() as usize, &newest.data()[0]["action"]),
        (newest.data().as_array().unwrap().len(), &json!("delete"))
    );
    assert_eq!(newest.data()[0]["hash"].as_str().unwrap().len(), 64);
    let page = history("by.who = \"system\"", "&limit=2&offset=1&sort=sequence");
    assert_eq!(
        (
            page.data()[0]["sequence"].as_u64(),
            page.data()[1]["sequence"].as_u64()
        ),
        (Some(2), Some(3))
    );
    assert_eq!(
        history("action = \"login\"", "").data()[0]["after"]["identityId"],
        own.data()["identityId"]
    );

    let (bob, _) = server.user("robert", json!({}));
    server
        .log_in_again("robert")
        .ask("GET", "//overkeep/v1/history")
        .send()
        .refused(401, "UNAUTHORIZED", "");
    assert_eq!(
        history("action = \"refusal\"", "").data()[0]["id"],
        bob.as_str()
    );
    let tagged = json!({ "identityId": bob, "method": "ott", "expiresAt": "2090-01-01T00:00:00.000Z", "tags": { "x": "y" } });
    let issued = server.admin.post("/enrollments", tagged).expect(201).id();
    assert_eq!(
        history(&format!("id = \"{issued}\""), "").each("action"),
        ["create"]
    );
    server
        .admin
        .get("/overkeep/v1/history?sort=name")
        .refused(400, "INVALID_SORT_IDENTIFIER", "");
    server
        .admin
        .list("/overkeep/v1/history", "after = 1", "")
        .refused(400, "INVALID_FILTER", "");
}

#[test]
fn lockouts_are_in_the_history() {
    let server = TestServer::start();
    let rules = json!({ "primary": { "updb": { "maxAttempts": 2, "lockoutDurationMinutes": 5 } } });
    server
        .admin
        .patch("/auth-policies/default", rules)
        .expect(200);
    let (id, _) = server.user("erin", json!({}));
    for _ in 0..2 {
        server
            .anonymous()
            .post(
                "/authenticate?method=password",
                json!({ "username": "erin", "password": "not hers" }),
            )
            .expect(401);
    }
    let told = server
        .admin
        .list("/overkeep/v1/history", &format!("id = \"{id}\""), "")
        .expect(200);
    assert_eq!(
        told.each("action")[..2],
        ["update", "lockout"],
        "{}",
        told.text
    );
    assert_eq!(
        told.data()[1]["by"],
        json!({ "who": "anonymous", "address": "127.0.0.1" })
    );
    assert!(told.data()[0]["after"]["disabledAt"].is_string() && told.data()[1]["name"] == "erin");
}

#[test]
fn history_contains_no_secret() {
    let server = TestServer::start();
    let mut secrets = Secrets(Vec::new());
    story(&server, &mut secrets);
    let directory = server.closed();
    let rows = written(&directory.path().join("data"));
    for secret in &secrets.0 {
        let found = rows.iter().find(|row| row.contains(secret.as_str()));
        assert!(found.is_none(), "{secret:?} is in {found:?}");
    }
    for told in [
        "\"bob\"",
        "\"bobby\"",
        "\"login\"",
        "\"refusal\"",
        "(secret)",
        "\"tcp:db:1\"",
    ] {
        assert!(
            rows.iter().any(|row| row.contains(told)),
            "{told} is in no row"
        );
    }
    assert!(secrets.0.len() > 30);
}

#[test]
fn refusal_flood_costs_few_rows() {
    let server = TestServer::with_manual_clock();
    let wrong = |name: &str| {
        let body = json!({ "username": name, "password": "not the password" });
        server
            .anonymous()
            .post("/authenticate?method=password", body)
            .expect(401);
    };
    server.user("carol", json!({}));
    (0..30).for_each(|_| wrong("carol"));
    (0..40).for_each(|n| wrong(&format!("nobody-{n}")));
    server.clock.advance(Duration::from_secs(61));
    wrong("carol");
    let directory = server.closed();
    let store = stores::of(policy::change::KINDS).start(&directory.path().join("data"));
    let refusals: Vec<HistoryRow> = rows(&store)
        .into_iter()
        .filter(|row| row.action == Action::Refusal)
        .collect();
    let times: Vec<u64> = refusals
        .iter()
        .map(|row| row.after.as_ref().unwrap()["times"].as_u64().unwrap())
        .collect();
    assert_eq!(
        times.iter().sum::<u64>(),
        71,
        "every rejection must be counted: {times:?}"
    );
    assert!(refusals.len() <= 4, "{}", refusals.len());
    assert_eq!(refusals[0].by, Author::remote(Some("127.0.0.1".into())));
    assert!(
        refusals.iter().any(|row| !row.id.is_empty()),
        "a known claimed identity must be recorded"
    );
}

#[test]
fn history_pages_follow_their_filter() {
    let (directory, rows) = five();
    let store = open(&directory);
    let page = |text: &str, descending: bool, limit: i64, offset: i64| {
        let query = Query::parse(text, &model::entity::HistoryWords).unwrap();
        let (found, total) = store
            .read(|tx| {
                tx.history(
                    &query,
                    descending,
                    Window::new(&query, Some(limit), Some(offset)),
                )
            })
            .unwrap();
        (
            found
                .into_iter()
                .map(|row| row.sequence)
                .collect::<Vec<_>>(),
            total,
        )
    };
    assert_eq!(page("", false, 2, 1), (vec![2, 3], 5));
    assert_eq!(page("", true, 2, 1), (vec![4, 3], 5));
    assert_eq!(page("name = \"task c\"", true, 10, 0), (vec![3], 1));
    assert_eq!(
        page(
            "sequence > 3 and kind = \"task\" and action = \"create\" and by.who = \"system\"",
            true,
            10,
            0
        ),
        (vec![5, 4], 2)
    );
    assert_eq!(page("by.identity = null", false, 1, 4), (vec![5], 5));
    assert_eq!(rows.len(), 5);
}
