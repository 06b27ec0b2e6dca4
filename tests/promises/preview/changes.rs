//! Previews of changes.

use super::*;

#[test]
fn previews_are_exact_and_harmless() {
    let mut rng = Rng::new(7);
    let scenario = Scenario::new(&mut rng);
    let admin = &scenario.server.admin;
    let (mut before, mut effective) = (scenario.pairs(), 0);
    for n in 0..10 {
        let (method, path, body) = scenario.change(&mut rng);
        let ask = |path: &str| {
            let asking = admin.ask(method, path);
            if body.is_null() {
                asking.send()
            } else {
                asking.json(&body).send()
            }
        };
        let preview = ask(&format!("{path}?preview=true"))
            .expect(200)
            .data()
            .clone();
        if n % 4 == 0 {
            assert_eq!(
                scenario.pairs(),
                before,
                "{method} {path}: the preview changed something"
            );
        }
        let done = ask(&path);
        assert!(done.status < 300, "{}: {}", done.request, done.text);
        let after = scenario.pairs();
        assert_predicted(&preview, &before, &after, &format!("{method} {path}"));
        effective += usize::from(before != after);
        before = after;
    }
    assert!(
        effective > 2,
        "only {effective} of the changes had an effect"
    );
}

#[test]
fn preview_covers_many_policies() {
    let server = TestServer::with_manual_clock();
    let [goes, stays] = ["goes", "stays"].map(|name| server.identity(&fresh(name), json!({})));
    let services: Vec<String> = (0..3)
        .map(|_| server.service(&fresh("service"), json!({})))
        .collect();
    for n in 0..150 {
        let who = if n < 100 { &goes } else { &stays };
        server.service_policy(
            "Dial",
            &[&format!("@{who}")],
            &[&format!("@{}", services[n % 3])],
        );
    }
    let lost = |path: &str| {
        let preview = server
            .admin
            .delete(&format!("{path}?preview=true"))
            .expect(200)
            .data()
            .clone();
        assert_eq!(preview["dial"]["gained"]["pairs"], 0);
        let lost = &preview["dial"]["lost"];
        json!([lost["pairs"], lost["who"]["count"], lost["what"]["count"]])
    };
    assert_eq!(lost(&format!("/identities/{goes}")), json!([3, 1, 3]));
    assert_eq!(
        lost(&format!("/services/{}", services[0])),
        json!([2, 2, 1])
    );
}

#[test]
fn previews_are_refused_like_changes() {
    let server = TestServer::with(Clock::system(), |_| ());
    let admin = &server.admin;
    let name = fresh("service");
    let service = server.service(&name, json!({}));
    let new = json!({ "name": name, "encryptionRequired": true });
    admin
        .post("/services?preview=true", new.clone())
        .refused(400, "COULD_NOT_VALIDATE", "name");
    admin
        .post(
            "/services?preview=true",
            json!({ "name": 5, "encryptionRequired": true }),
        )
        .refused(400, "COULD_NOT_PARSE_BODY", "");
    admin
        .post(
            "/services?preview=true",
            json!({ "name": fresh("service"), "encryptionRequired": true, "configs": ["none"] }),
        )
        .expect(404);
    admin
        .delete("/services/none?preview=true")
        .refused(404, "NOT_FOUND", "");
    admin
        .ask("DELETE", &format!("/services/{service}?preview=true"))
        .header("if-match", "\"old\"")
        .send()
        .expect(412);
    server
        .anonymous()
        .at(Base::Management)
        .delete(&format!("/services/{service}?preview=true"))
        .expect(401);
    // A request for a preview that is not available must not carry out the change.
    admin
        .delete(&format!("/services/{service}?preview=yes"))
        .refused(400, "COULD_NOT_VALIDATE", "preview");
    let identity = server.identity(&fresh("identity"), json!({}));
    let trace = format!("/identities/{identity}/trace?preview=true");
    admin
        .ask("PUT", &trace)
        .json(&json!({ "enabled": false }))
        .send()
        .refused(400, "COULD_NOT_VALIDATE", "preview");
    // `preview=false` carries out the change; any other value is rejected.
    admin
        .delete(&format!("/services/{service}?preview=true"))
        .expect(200);
    admin
        .delete(&format!("/services/{service}?preview=false&preview=true"))
        .expect(200);
    admin.get(&format!("/services/{service}")).expect(200);
    admin
        .delete(&format!("/services/{service}?preview=false"))
        .expect(200);
    admin.get(&format!("/services/{service}")).expect(404);
}

/// Operations of administrators that change no record that a request could change.
const WITHOUT_PREVIEW: [&str; 4] = [
    "/database/check-data-integrity",
    "/database/fix-data-integrity",
    "/database/snapshot",
    "/identities/{id}/trace",
];

#[test]
fn every_change_has_a_preview() {
    let rows = interface(Base::Management)
        .rows()
        .filter(|row| row.permission == Permission::Admin && row.method != "GET");
    let without: BTreeSet<&str> = rows
        .filter(|row| row.operation.preview.is_none())
        .map(|row| row.path.as_str())
        .collect();
    assert_eq!(without, BTreeSet::from(WITHOUT_PREVIEW));
}

#[test]
fn disabling_takes_what_policies_grant() {
    let server = TestServer::with(Clock::system(), |_| ());
    let identity = server.identity(&fresh("leaver"), json!({}));
    let other = server.identity(&fresh("stayer"), json!({}));
    let service = server.service(&fresh("service"), json!({}));
    server.service_policy(
        "Dial",
        &[&format!("@{identity}"), &format!("@{other}")],
        &[&format!("@{service}")],
    );
    let path = format!("/identities/{identity}");
    let [disable, enable] = ["disable", "enable"].map(|action| format!("{path}/{action}"));
    let body = |action: &str| {
        if action == disable {
            json!({ "durationMinutes": 0 })
        } else {
            Json::Null
        }
    };
    let counts = |action: &str| {
        let preview = server
            .admin
            .post(&format!("{action}?preview=true"), body(action))
            .expect(200)
            .data()
            .clone();
        ["gained", "lost"].map(|turn| {
            let pairs = &preview["dial"][turn];
            if pairs["pairs"] == 1 {
                assert_eq!(
                    (
                        &pairs["who"]["first"][0]["id"],
                        &pairs["what"]["first"][0]["id"]
                    ),
                    (&json!(identity), &json!(service))
                );
            }
            pairs["pairs"].as_u64().unwrap()
        })
    };
    let is_disabled = || server.admin.get(&path).expect(200).data()["disabled"].clone();
    assert_eq!(
        (counts(&enable), counts(&disable), is_disabled()),
        ([0, 0], [0, 1], json!(false))
    );
    server.admin.post(&disable, body(&disable)).expect(200);
    assert_eq!(
        (counts(&disable), counts(&enable), is_disabled()),
        ([0, 0], [1, 0], json!(true))
    );
    server.admin.post(&enable, Json::Null).expect(200);
    assert_eq!((counts(&enable), is_disabled()), ([0, 0], json!(false)));
    let negative = json!({ "durationMinutes": -5 });
    server
        .admin
        .post(&format!("{disable}?preview=true"), negative.clone())
        .refused(400, "COULD_NOT_VALIDATE", "durationMinutes");
    server.admin.post(&disable, negative).expect(200);
    assert_eq!(is_disabled(), json!(true));
}
