//! How a request is read.

use super::*;

#[test]
fn wrong_role_entries_are_named() {
    let policy = |roles: Json| json!({ "name": fresh("policy"), "type": "Dial", "semantic": "AnyOf", "identityRoles": roles, "serviceRoles": ["#all"] });
    let lists = [
        (json!(["#all", "#all"]), "[#all #all]"),
        (json!(["@none", "#all"]), "[#all @none]"),
        (json!(["x", "#all"]), "[x]"),
        (json!(["z", "#b", "a"]), "[z a]"),
        (json!(["@z", "#b", "@a"]), "[a z]"),
    ];
    for (roles, shown) in lists {
        let refused = admin().post("/service-policies", policy(roles)).refused(
            400,
            "COULD_NOT_VALIDATE",
            "identityRoles",
        );
        assert_eq!(refused.json["error"]["cause"]["value"], shown);
    }
    let body = json!({ "name": fresh("service"), "encryptionRequired": true, "roleAttributes": ["fine", "@z", "#a"] });
    let refused =
        admin()
            .post("/services", body)
            .refused(400, "COULD_NOT_VALIDATE", "roleAttributes");
    assert_eq!(refused.json["error"]["cause"]["value"], "@z");
}

#[test]
fn first_missing_member_is_told() {
    for (path, body, first) in [
        ("/services", json!({}), "encryptionRequired"),
        ("/identities", json!({}), "isAdmin"),
        ("/cas", json!({}), "certPem"),
        ("/configs", json!({}), "configTypeId"),
        (
            "/identities",
            json!({ "name": "a", "isAdmin": false, "type": "x", "defaultHostingCost": -1 }),
            "defaultHostingCost",
        ),
        (
            "/posture-checks",
            json!({ "name": "a", "typeId": "PROCESS_MULTI" }),
            "processes",
        ),
        // Members of all forms come before members of one form.
        ("/posture-checks", json!({ "typeId": "DOMAIN" }), "name"),
    ] {
        admin()
            .post(path, body)
            .refused(400, "COULD_NOT_VALIDATE", first);
    }
}

#[test]
fn blank_list_parameters_are_ignored() {
    let server = shared();
    let config_type = admin()
        .post("/config-types", json!({ "name": fresh("type") }))
        .expect(201)
        .id();
    let body = json!({ "name": fresh("config"), "configTypeId": config_type, "data": { "a": 1 } });
    let config = admin().post("/configs", body).expect(201).id();
    let service = server.service(&fresh("service"), json!({ "configs": [config] }));
    let body = json!({ "username": "admin", "password": server.password, "configTypes": ["all"] });
    let token = server
        .anonymous()
        .at(Base::Management)
        .post("/authenticate?method=password", body)
        .expect(200)
        .data()["token"]
        .clone();
    let caller = admin().with_token(token.as_str().unwrap());
    let only = format!("id = \"{service}\"");
    for blank in ["&configTypes=", "&asIdentity="] {
        let listed = caller.list("/services", &only, blank).expect(200);
        assert_eq!(
            listed.data()[0]["config"]
                .as_object()
                .map(|config| config.len()),
            Some(1),
            "{blank}: {}",
            listed.text
        );
    }
}

#[test]
fn member_names_ignore_case() {
    let name = fresh("any case");
    let id = admin()
        .post(
            "/identities",
            json!({ "NAME": name, "Type": "Device", "IsAdmin": false }),
        )
        .expect(201)
        .id();
    let path = format!("/identities/{id}");
    assert_eq!(member(&path, "name"), name.as_str());
    admin()
        .patch(&path, json!({ "NAME": "another" }))
        .expect(200);
    assert_eq!(
        member(&path, "name"),
        name.as_str(),
        "member names in a PATCH are case-sensitive"
    );
    shared().give_password(&id, &name);
    let body = json!({ "USERNAME": name, "Password": PASSWORD, "sdkInfo": { "appID": "a" }, "EnvInfo": { "OS": "b" } });
    shared()
        .anonymous()
        .post("/authenticate?method=password", body)
        .expect(200);
    let shown = admin().get(&path).expect(200);
    assert_eq!(
        (
            &shown.data()["sdkInfo"]["appId"],
            &shown.data()["envInfo"]["os"]
        ),
        (&json!("a"), &json!("b"))
    );
}

#[test]
fn nested_member_names_ignore_case() {
    let systems = |of: &str| json!([{ "type": of, "versions": [] }]);
    let check =
        json!({ "name": fresh("check"), "typeId": "OS", "operatingSystems": systems("Windows") });
    let path = format!(
        "/posture-checks/{}",
        admin().post("/posture-checks", check).expect(201).id()
    );
    let spelled =
        json!({ "typeId": "OS", "operatingSystems": [{ "Type": "Linux", "Versions": ["5.4.0"] }] });
    admin().patch(&path, spelled).expect(200);
    assert_eq!(
        member(&path, "operatingSystems"),
        json!([{ "type": "Linux", "versions": ["5.4.0"] }])
    );
    admin()
        .patch(
            &path,
            json!({ "typeId": "OS", "OPERATINGSYSTEMS": systems("macOS") }),
        )
        .expect(200);
    assert_eq!(
        member(&path, "operatingSystems"),
        json!([{ "type": "Linux", "versions": ["5.4.0"] }])
    );
}

#[test]
fn syntax_comes_before_permission() {
    let (_, somebody) = shared().user(&fresh("somebody"), json!({}));
    let somebody = somebody.at(Base::Management);
    somebody
        .post("/services", json!({}))
        .refused(400, "COULD_NOT_VALIDATE", "encryptionRequired");
    somebody
        .ask("POST", "/services")
        .body("application/json", "{")
        .send()
        .refused(400, "COULD_NOT_PARSE_BODY", "");
    somebody
        .get("/services?limit=x")
        .refused(400, "COULD_NOT_VALIDATE", "limit");
    let name = fresh("service");
    somebody
        .post(
            "/services",
            json!({ "name": name, "encryptionRequired": true }),
        )
        .refused(401, "UNAUTHORIZED", "");
    assert_eq!(
        admin()
            .list("/services", &format!("name = \"{name}\""), "")
            .expect(200)
            .total(),
        0
    );
    somebody
        .with_token("nobody's")
        .post("/services", json!({}))
        .refused(401, "UNAUTHORIZED", "");
}

#[test]
fn trace_length_may_be_signed() {
    let path = format!(
        "/identities/{}/trace",
        shared().identity(&fresh("traced"), json!({}))
    );
    for length in ["0", "+5m", "-5m", "-0", "1.5h"] {
        admin()
            .put(&path, json!({ "enabled": true, "duration": length }))
            .expect(200);
    }
    for nonsense in ["", "+", "--5m", "5", "m"] {
        admin()
            .put(&path, json!({ "enabled": true, "duration": nonsense }))
            .refused(400, "COULD_NOT_VALIDATE", "duration");
    }
}

#[test]
fn answers_are_neither_stored_nor_sniffed() {
    let server = TestServer::with(Clock::system(), |config| {
        config.metrics.listen = Some("127.0.0.1:0".parse().unwrap());
        config.http.cors_origins = vec!["https://page.example".into()];
    });
    let headers = |answer: &ureq::http::HeaderMap| {
        let of = |name: &str| {
            answer
                .get(name)
                .map_or("", |value| value.to_str().unwrap())
                .to_owned()
        };
        (of("cache-control"), of("x-content-type-options"))
    };
    let api = ("no-store".to_owned(), "nosniff".to_owned());
    let asked = [
        ("GET", "/edge/management/v1/identities"),
        ("GET", "/edge/client/v1/current-identity"),
        ("GET", "/overkeep/v1/history"),
        ("GET", "/overkeep/v1/events"),
        ("GET", "/overkeep/v1/openapi.json"),
        ("GET", "/fabric/v1/routers"),
        ("GET", "/edge/management/v1/nothing"),
        ("PUT", "/edge/management/v1/identities"),
        ("POST", "/edge/management/v1/services"),
        ("GET", "//health"),
        ("GET", "//ready"),
        ("GET", "//version"),
        ("HEAD", "//health"),
        ("GET", "//.well-known/est/cacerts"),
        ("GET", "//nowhere/at/all"),
        ("OPTIONS", "/edge/management/v1/identities"),
    ];
    for caller in [&server.admin, &server.anonymous()] {
        for (method, path) in asked {
            let answer = caller
                .ask(method, path)
                .header("origin", "https://page.example")
                .header("access-control-request-method", "GET");
            assert_eq!(headers(&answer.send().headers), api, "{method} {path}");
        }
    }
    for path in ["//", "//docs", "//docs/swagger-ui.css", "//page/main.js"] {
        let answer = server
            .anonymous()
            .ask("GET", path)
            .header("accept", "text/html, */*")
            .send();
        assert_eq!(
            (answer.status, headers(&answer.headers)),
            (200, ("no-cache".into(), "nosniff".into())),
            "{path}"
        );
    }
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    for path in ["metrics", "nothing"] {
        let answer = agent
            .get(format!("http://{}/{path}", server.metrics_bound()))
            .call()
            .unwrap();
        assert_eq!(headers(answer.headers()), api, "{path}");
    }
}
