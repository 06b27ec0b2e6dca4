//! What filters and limits of lists accept.

use super::*;

#[test]
fn secret_fields_are_never_filtered() {
    let server = TestServer::start();
    let list = server.admin.get("/authenticators").expect(200);
    for secret in ["updbPassword", "updbSalt"] {
        assert!(
            list.json["meta"]["filterableFields"]
                .as_array()
                .unwrap()
                .contains(&secret.into()),
            "clients know {secret}"
        );
        for filter in ["= null", "!= null", "contains \"a\""] {
            server
                .admin
                .list("/authenticators", &format!("{secret} {filter}"), "")
                .refused(400, "INVALID_FILTER", "");
        }
        server
            .admin
            .get(&format!("/authenticators?sort={secret}"))
            .refused(400, "INVALID_SORT_IDENTIFIER", "");
    }
}

#[test]
fn unlimited_lists_follow_client_rules() {
    let server = TestServer::start();
    for name in ["one", "three", "two"] {
        server.service(name, json!({}));
    }
    let asked = |query: &str| {
        let answer = server.admin.get(&format!("/services?{query}")).expect(200);
        let pagination = &answer.json["meta"]["pagination"];
        assert_eq!(
            (&pagination["totalCount"], &pagination["limit"]),
            (&json!(3), &json!(i64::MAX)),
            "{query}"
        );
        answer
            .each("name")
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for rest in [
        "filter=true%20sort%20by%20name%20skip%201%20limit%20none",
        "filter=limit%20none&sort=name&offset=1",
    ] {
        assert_eq!(asked(rest), ["three", "two"], "{rest}");
    }
    assert_eq!(asked("limit=-1&sort=name"), ["one", "three", "two"]);
    assert_eq!(
        asked("limit=-1&offset=1").len(),
        2,
        "without an order the list continues after the offset"
    );
    // With an order such a request returns nothing, as existing clients expect.
    assert!(asked("limit=-1&sort=name&offset=1").is_empty());
}

#[test]
fn filters_accept_unencoded_quotes() {
    let server = TestServer::start();
    let (admin, name) = (&server.admin, "a<b>é");
    let id = server.service(name, json!({}));
    let mut wire = Wire::to(admin);
    let token = admin.token.as_deref().unwrap();
    let head = format!("host: it\r\nzt-session: {token}\r\n");
    let body = r#"{"tags":{"GET /\" HTTP/1.1":"\"<>"}}"#;
    let path = format!("/edge/management/v1/services/{id}?x=\"");
    let write = format!(
        "PATCH {path} HTTP/1.1\r\n{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let look = format!(
        "GET /edge/management/v1/services?filter=name=\"{name}\" HTTP/1.1\r\n{head}connection: close\r\n\r\n"
    );
    wire.send(format!("{write}{look}").as_bytes()).unwrap();
    let (compared, _) = wire.read();
    let answers: Vec<&str> = compared.split("HTTP/1.1 ").collect();
    assert!(
        answers.len() == 3 && answers[1].starts_with("200") && answers[2].starts_with("200"),
        "{compared}"
    );
    assert!(
        answers[2].contains(&id) && answers[2].contains(r#""totalCount":1"#),
        "{compared}"
    );
    let tags = admin.get(&format!("/services/{id}")).expect(200).data()["tags"].clone();
    assert_eq!(
        tags,
        json!({ "GET /\" HTTP/1.1": "\"<>" }),
        "the body is as it was sent"
    );
}

#[test]
fn role_filter_ignores_the_caller() {
    let server = TestServer::start();
    let id = server.service("web", json!({ "roleAttributes": ["front"] }));
    let first = |query: &str| {
        server
            .admin
            .get(&format!("/services?{query}"))
            .expect(200)
            .data()[0]
            .clone()
    };
    let (whole, by_roles) = (first(""), first("roleFilter=%23front"));
    assert_eq!(by_roles["id"], id);
    assert_eq!(whole["permissions"], json!(["Invalid"]));
    for (name, value) in whole.as_object().unwrap() {
        let expected = match name.as_str() {
            "config" | "permissions" => Json::Null,
            "postureQueries" => json!([]),
            _ => value.clone(),
        };
        assert_eq!(by_roles[name], expected, "{name}");
    }
}
