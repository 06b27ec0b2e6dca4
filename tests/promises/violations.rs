//! An error about a body lists all violations, each once, with the allowed values; unknown members
//! are named.

use serde_json::{Value as Json, json};

use crate::harness::{Answer, Base, encoded, fresh, shared};

/// The fields of all violations in an error.
fn violated_fields(answer: &Answer) -> Vec<&str> {
    answer.json["error"]["violations"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["field"].as_str())
        .collect()
}

/// The text that another command line prints for an error: message and cause together.
fn printed(answer: &Answer) -> String {
    let error = &answer.json["error"];
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let cause = &error["cause"];
    let cause = match cause["field"].as_str() {
        Some(field) => format!(
            "INVALID_FIELD - {field} [{}] {}",
            text(&cause["value"]),
            text(&cause["reason"])
        ),
        None => format!("{} - {}", text(&cause["code"]), text(&cause["message"])),
    };
    format!(
        "{} - {}: {cause}",
        text(&error["code"]),
        text(&error["message"])
    )
}

#[test]
fn all_violations_are_told_together() {
    let admin = &shared().admin;
    let body = json!({ "name": fresh("policy"), "type": "Nothing", "semantic": "Some", "identityRoles": ["#a"] });
    let answer =
        admin
            .post("/service-policies", body)
            .refused(400, "COULD_NOT_VALIDATE", "semantic");
    assert_eq!(
        violated_fields(&answer),
        ["semantic", "type"],
        "{}",
        answer.text
    );
    let reasons: Vec<&str> = answer.json["error"]["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["reason"].as_str().unwrap())
        .collect();
    assert!(
        reasons[0].contains("AllOf") && reasons[0].contains("AnyOf") && reasons[1].contains("Dial"),
        "{reasons:?}"
    );

    // A member of a wrong type is reported as such, together with the others.
    let answer = admin
        .post(
            "/services",
            json!({ "name": 7, "maxIdleTimeMillis": "long" }),
        )
        .refused(400, "COULD_NOT_PARSE_BODY", "");
    let all = answer.json["error"]["violations"].to_string();
    assert!(
        [
            "name must be a text, not a number",
            "maxIdleTimeMillis",
            "encryptionRequired"
        ]
        .iter()
        .all(|part| all.contains(part)),
        "{all}"
    );

    // Rules beyond the schema are reported together with it.
    let taken = fresh("service");
    shared().service(&taken, json!({}));
    let body = json!({ "name": taken, "encryptionRequired": true, "terminatorStrategy": "none", "maxIdleTimeMillis": -1, "roleAttributes": ["#no"] });
    let answer = admin.post("/services", body).expect(400);
    assert_eq!(
        violated_fields(&answer),
        ["roleAttributes", "maxIdleTimeMillis", "name"],
        "{}",
        answer.text
    );
    assert!(
        answer.text.contains("terminatorStrategy"),
        "{}",
        answer.text
    );

    // One of several forms of a body, and the data of a config.
    let processes = json!([{ "osType": "Other", "hashes": [] }]);
    let body = json!({ "name": fresh("check"), "typeId": "PROCESS_MULTI", "semantic": "Few", "processes": processes });
    let answer = admin.post("/posture-checks", body).expect(400);
    assert_eq!(
        violated_fields(&answer),
        ["processes.0.osType", "processes.0.path", "semantic"],
        "{}",
        answer.text
    );
    let schema = json!({ "type": "object", "properties": { "port": { "type": "integer" }, "host": { "type": "string" } }, "required": ["mode"] });
    let of = admin
        .post(
            "/config-types",
            json!({ "name": fresh("type"), "schema": schema }),
        )
        .expect(201)
        .id();
    let data = json!({ "port": "x", "host": 1 });
    let answer = admin
        .post(
            "/configs",
            json!({ "name": fresh("config"), "configTypeId": of, "data": data }),
        )
        .expect(400);
    assert_eq!(violated_fields(&answer).len(), 3, "{}", answer.text);
}

#[test]
fn one_mistake_is_told_once() {
    let server = shared();
    let name = fresh("taken");
    server.service(&name, json!({}));
    let answer = server
        .admin
        .post(
            "/services",
            json!({ "name": name, "encryptionRequired": true }),
        )
        .refused(400, "COULD_NOT_VALIDATE", "name");
    assert!(answer.json["error"]["violations"].is_null());
    let line = printed(&answer);
    assert_eq!(line.matches("must be unique").count(), 1, "{line}");
    assert!(
        answer.text.contains("name must be unique") && answer.text.contains("this name is taken"),
        "{}",
        answer.text
    );
    for (method, path, body) in [
        ("GET", "/services/none".to_owned(), Json::Null),
        (
            "GET",
            format!("/services?filter={}", encoded("nothing = 1")),
            Json::Null,
        ),
        ("POST", "/services".into(), json!({ "name": "x" })),
        ("POST", "/services".into(), json!([1])),
        ("DELETE", "/auth-policies/default".into(), Json::Null),
        ("PUT", "/nothing".into(), json!({})),
    ] {
        let asking = server.admin.ask(method, &path);
        let answer = if body.is_null() {
            asking.send()
        } else {
            asking.json(&body).send()
        };
        let error = &answer.json["error"];
        let reason = error["cause"]["reason"]
            .as_str()
            .or(error["cause"]["message"].as_str())
            .unwrap_or_default();
        assert!(
            !error["message"].as_str().unwrap().contains(reason) && !reason.is_empty(),
            "{method} {path}: {}",
            answer.text
        );
    }
}

#[test]
fn refusals_name_allowed_values() {
    let server = shared();
    let asking = server
        .admin
        .ask("POST", "/services")
        .body("text/plain", "{}");
    assert!(
        asking
            .send()
            .refused(400, "COULD_NOT_VALIDATE", "Content-Type")
            .text
            .contains("send content-type: application/json")
    );
    let answer = server
        .admin
        .get("/services/none/identities?policyType=maybe")
        .expect(400);
    assert!(
        answer.text.contains("dial") && answer.text.contains("bind"),
        "{}",
        answer.text
    );
    let answer = server
        .admin
        .post(
            "/posture-checks",
            json!({ "name": "x", "typeId": "NOTHING" }),
        )
        .expect(400);
    assert!(answer.text.contains("PROCESS_MULTI"), "{}", answer.text);
}

#[test]
fn messages_contain_no_certificate() {
    let server = shared();
    let pem = crate::harness::Authority::new("twice").pem();
    let body = |name: &str| json!({ "name": name, "certPem": pem, "isAuthEnabled": true, "isAutoCaEnrollmentEnabled": true, "isOttCaEnrollmentEnabled": true, "identityRoles": [] });
    server.admin.post("/cas", body(&fresh("ca"))).expect(201);
    let twice = server.admin.post("/cas", body(&fresh("ca"))).expect(400);
    let unknown = server
        .admin
        .get(&format!("/cas/{}", encoded(&pem)))
        .expect(404);
    for answer in [twice, unknown] {
        let error = &answer.json["error"];
        for text in [
            &error["message"],
            &error["cause"]["reason"],
            &error["cause"]["message"],
        ] {
            assert!(
                !text.to_string().contains("BEGIN CERTIFICATE"),
                "{}",
                answer.text
            );
        }
    }
}

#[test]
fn unknown_members_are_named_or_refused() {
    let admin = &shared().admin;
    let name = fresh("service");
    let body = json!({ "name": name, "encryptionRequired": true, "roleAttribute": ["web"], "tags": { "anything": 1 }, "ü": 1 });
    let header = |answer: &Answer| answer.header("overkeep-unknown-members").to_owned();
    admin.post("/services?strict=true", body.clone()).refused(
        400,
        "COULD_NOT_VALIDATE",
        "roleAttribute",
    );
    let strictly = admin
        .post("/services?strict=true", body.clone())
        .expect(400);
    assert!(
        strictly.text.contains("roleAttributes"),
        "the known members are not listed: {}",
        strictly.text
    );
    let made = admin.post("/services", body).expect(201);
    assert_eq!(header(&made), "roleAttribute, %C3%BC");
    let path = format!("/services/{}", made.id());
    let patched = admin
        .patch(
            &path,
            json!({ "Name": "x", "terminatorStrategy": "random" }),
        )
        .expect(200);
    assert_eq!(
        header(&patched),
        "Name",
        "names in a PATCH are case-sensitive"
    );
    let put = admin
        .put(&path, json!({ "name": name, "encryptionRequired": true }))
        .expect(200);
    assert_eq!(header(&put), "");
    admin
        .put(&format!("{path}?strict=perhaps"), json!({ "name": name }))
        .refused(400, "COULD_NOT_VALIDATE", "strict");

    // In nested members, in lists, and with the form that its tag selects.
    let check = json!({ "name": fresh("check"), "typeId": "PROCESS", "domains": [], "process": { "osType": "Linux", "path": "/x", "hash": "" } });
    let made = admin.post("/posture-checks", check).expect(201);
    assert_eq!(header(&made), "domains, process.hash");
    let anonymous = shared().anonymous();
    let login = anonymous
        .ask("POST", "/authenticate?method=password")
        .json(&json!({ "username": "nobody-here", "password": "wrong one", "usrname": "x" }))
        .send();
    assert_eq!(login.status, 401);

    // If something else is wrong, unknown members are reported too: often a required member was
    // misspelt.
    let answer = admin
        .at(Base::Management)
        .post(
            "/services",
            json!({ "nmae": "x", "encryptionRequired": true }),
        )
        .expect(400);
    assert_eq!(
        violated_fields(&answer),
        ["name", "nmae"],
        "{}",
        answer.text
    );
}

#[test]
fn unknown_parameters_are_named_or_refused() {
    let admin = &shared().admin;
    let header = |answer: &Answer| answer.header("overkeep-unknown-members").to_owned();
    let path = "/services?limit=1&limt=2&offset=0&a%20b=1";
    assert_eq!(
        header(&admin.get(path).expect(200)),
        "query.limt, query.a%20b"
    );
    admin
        .get(&format!("{path}&strict=true"))
        .refused(400, "COULD_NOT_VALIDATE", "query.limt");
    assert_eq!(
        header(&admin.get("/services?limit=1&strict=true").expect(200)),
        ""
    );
    let enrolled = |rest: &str| {
        let body = json!({ "password": "x", "passwrd": "y" });
        shared().anonymous().at(Base::Client).post(
            &format!("/enroll?token={}{rest}", uuid::Uuid::new_v4()),
            body,
        )
    };
    enrolled("&strict=true").refused(400, "COULD_NOT_VALIDATE", "passwrd");
    enrolled("").refused(400, "INVALID_ENROLLMENT_TOKEN", "");
}
