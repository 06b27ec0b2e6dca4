//! Bodies that are refused, and what the refusal names.

use super::*;

/// The names that clients know for the bodies of operations; an error about a missing body names it
/// as the field. The body of a kind that is not listed has the name of the kind.
const BODIES: &[(&str, &str)] = &[
    ("/api-tokens", "apiToken"),
    ("/auth-policies", "authPolicy"),
    ("/authenticate", "auth"),
    ("/authenticate/link", "loginLink"),
    ("/authenticate/mfa", "mfaAuth"),
    ("/authenticate/signer", "signerLogin"),
    ("/authenticate/signer-code", "signerCode"),
    ("/authenticators", "authenticator"),
    ("/authenticators/{id}", "authenticator"),
    ("/authenticators/{id}/extend", "extend"),
    ("/authenticators/{id}/extend-verify", "extend"),
    ("/authenticators/{id}/re-enroll", "reEnroll"),
    (
        "/authenticators/{id}/request-extend",
        "requestExtendAuthenticator",
    ),
    ("/certificates/request-extend", "extensionRequests"),
    ("/inspections", "inspection"),
    ("/cas", "ca"),
    ("/cas/{id}/verify", "certificate"),
    ("/config-types", "configType"),
    ("/database/snapshot", "snapshot"),
    ("/configs", "config"),
    ("/current-api-session/certificates", "sessionCertificate"),
    ("/current-identity/authenticators/{id}", "authenticator"),
    ("/current-identity/authenticators/{id}/extend", "extend"),
    (
        "/current-identity/authenticators/{id}/extend-verify",
        "extend",
    ),
    ("/current-identity/mfa/recovery-codes", "mfaValidation"),
    ("/current-identity/mfa/verify", "mfaValidation"),
    ("/edge-router-policies", "policy"),
    ("/edge-routers", "edgeRouter"),
    ("/enroll/challenge", "nonce"),
    ("/enroll/erott", "erOttEnrollmentRequest"),
    ("/enroll/extend/router", "routerExtendEnrollmentRequest"),
    ("/enroll/ott", "ottEnrollmentRequest"),
    ("/enroll/ottca", "ottEnrollmentRequest"),
    ("/enroll/updb", "updbCredentials"),
    ("/enrollments", "enrollment"),
    ("/enrollments/{id}/refresh", "refresh"),
    ("/external-jwt-signers", "externalJwtSigner"),
    ("/identities", "identity"),
    ("/identities/{id}/disable", "disable"),
    ("/identities/{id}/service-configs", "serviceConfigs"),
    ("/identities/{id}/trace", "traceSpec"),
    ("/network", "network"),
    ("/posture-checks", "postureCheck"),
    ("/posture-response", "postureResponse"),
    ("/posture-response-bulk", "postureResponse"),
    ("/routers", "router"),
    ("/service-edge-router-policies", "policy"),
    ("/service-policies", "policy"),
    ("/services", "service"),
    ("/sessions", "session"),
    ("/snapshot-trials", "snapshotTrial"),
    ("/terminators", "terminator"),
    ("/transit-routers", "router"),
];

#[test]
fn missing_or_invalid_json_is_refused() {
    let mut all = Differences::default();
    for operation in operations() {
        let Some(shape) = operation
            .row
            .operation
            .body
            .as_ref()
            .filter(|shape| !shape.judged_by_function)
        else {
            continue;
        };
        let path = operation.row.path.as_str();
        let body_name = BODIES
            .iter()
            .find(|(of, _)| *of == path || path.strip_prefix(of) == Some("/{id}"));
        let kind = || {
            KINDS
                .iter()
                .map(|entry| entry.kind)
                .find(|kind| path.trim_end_matches("/{id}") == format!("/{}", kind.path))
        };
        let body_name = body_name
            .map(|(_, name)| *name)
            .or_else(|| kind().map(|kind| kind.name));
        let body_name = body_name
            .unwrap_or_else(|| panic!("BODIES lacks the name of the body of {}", operation.name()));
        let media = shape.media[0];
        if shape.required {
            for nothing in ["", " \n"] {
                all.check(
                    "without a body",
                    &operation.sent(media, nothing),
                    Expected::Field(body_name),
                );
            }
        }
        for (media, content_type) in [("text/html", "text/html"), ("", "application/octet-stream")]
        {
            let answer = operation.sent(media, "<b>");
            all.check(media, &answer, Expected::Field("Content-Type"));
            assert_eq!(
                answer.json["error"]["cause"]["value"],
                content_type,
                "{}",
                operation.name()
            );
        }
        let Some(schema) = operation.schema() else {
            continue;
        };
        for broken in ["{", "nope", "{\"a\":1,}", "\u{feff}{}", "7"] {
            all.check(broken, &operation.sent(media, broken), Expected::Unread);
        }
        let other = if schema["type"] == "array" {
            "{\"a\":{}}"
        } else {
            "[]"
        };
        all.check(other, &operation.sent(media, other), Expected::Unread);
    }
}

/// Members that accept any JSON type: a wrong value breaks a rule of the member instead of making
/// the body unreadable.
const RULES: [&str; 2] = ["data", "schema"];

#[test]
fn wrong_members_are_named() {
    let (mut all, mut seen) = (Differences::default(), BTreeSet::new());
    // A declared network consists of bodies of other operations; `network_document.rs` tests its
    // own rules.
    for operation in operations().filter(|operation| operation.row.path != "/network") {
        let Some(schema) = operation.schema() else {
            continue;
        };
        // The same body of another operation is read by the same code.
        if !seen.insert(
            operation
                .row
                .operation
                .body
                .as_ref()
                .and_then(|shape| shape.title.as_deref()),
        ) {
            continue;
        }
        for form in forms(schema) {
            let whole = minimal_body(&form, true);
            for probe in probes(&form, &whole) {
                let field = named(&operation, &probe.path);
                let is_unread = probe.fault == Fault::Kind && !RULES.contains(&field.as_str());
                let expected = if is_unread {
                    Expected::Unread
                } else {
                    Expected::Field(&field)
                };
                let body = put(whole.clone(), &probe.path, probe.value.clone());
                let what = format!(
                    "{field} = {:.60}",
                    probe
                        .value
                        .as_ref()
                        .map_or("(missing)".into(), Json::to_string)
                );
                all.check(&what, &operation.answer(&body), expected);
            }
        }
    }
}

#[test]
fn syntax_errors_come_first() {
    let mut all = Differences::default();
    for operation in operations() {
        let Some(schema) = operation
            .schema()
            .filter(|schema| schema["type"] != "array")
        else {
            continue;
        };
        for form in forms(schema) {
            let at_the_top = probes(&form, &minimal_body(&form, true))
                .into_iter()
                .filter(|probe| probe.path.len() == 1);
            for probe in at_the_top.filter(|probe| {
                probe.fault == Fault::Kind && !probe.value.as_ref().is_some_and(Json::is_string)
            }) {
                let field = named(&operation, &probe.path);
                if !RULES.contains(&field.as_str()) {
                    let body = put(tags(&form), &probe.path, probe.value.clone());
                    all.check(
                        &format!("nothing but {body:.60}"),
                        &operation.answer(&body),
                        Expected::Unread,
                    );
                }
            }
        }
    }
    // Which of several forms a body has is decided first.
    let posture = |body: Json| shared().admin.post("/posture-checks", body);
    for unsaid in [
        json!({}),
        json!({ "name": 5 }),
        json!({ "name": 5, "typeId": null }),
        json!({ "typeId": "" }),
    ] {
        all.check("no form", &posture(unsaid), Expected::Field("typeId"));
    }
    for unknown in [
        json!({ "typeId": "os" }),
        json!({ "typeId": 5 }),
        json!({ "typeId": "OS", "operatingSystems": 5 }),
    ] {
        all.check("no such form", &posture(unknown), Expected::Unread);
    }
}

#[test]
fn tags_hold_scalars_only() {
    let mut all = Differences::default();
    for operation in operations() {
        // The members of an authenticator are validated after the rest of it (`conflicts/mod.rs`).
        let Some(schema) = operation
            .schema()
            .filter(|_| operation.row.path != "/authenticators")
        else {
            continue;
        };
        for form in forms(schema) {
            for name in ["tags", "appData"]
                .into_iter()
                .filter(|name| form["properties"].get(*name).is_some())
            {
                for value in [json!({}), json!({ "b": 1 }), json!([]), json!([1])] {
                    let mut body = minimal_body(&form, false);
                    if body.get("name").is_some() {
                        body["name"] = fresh("scalars").into();
                    }
                    body[name] = json!({ "a": value });
                    let answer = operation.answer(&body);
                    // The record to change, or another record named in the body, does not exist.
                    if answer.status != 404 {
                        all.check(name, &answer, Expected::Field(&format!("{name}.a")));
                    }
                }
            }
        }
    }
}

#[test]
fn unacceptable_media_types_are_refused() {
    let mut all = Differences::default();
    // These two ignore `Accept`, as existing clients need.
    let always = ["/.well-known/est/cacerts", "/enroll"];
    for operation in operations().filter(|operation| !always.contains(&operation.row.path.as_str()))
    {
        let caller = shared().admin.at(operation.base);
        let body = operation.row.operation.body.as_ref().map(|_| "{}");
        let asking = caller
            .ask(operation.row.method, &operation.path(MISSING_ID))
            .header("accept", "text/html, image/gif");
        let answer = match body {
            Some(body) => asking.body("application/json", body).send(),
            None => asking.send(),
        };
        all.check("", &answer, Expected::Field("Accept"));
        assert_eq!(
            answer.json["error"]["cause"]["value"],
            "text/html, image/gif",
            "{}",
            operation.name()
        );
    }
    // Several header lines are one list.
    shared()
        .anonymous()
        .ask("GET", "/version")
        .header("accept", "text/html")
        .header("accept", "application/json")
        .send()
        .expect(200);
}

#[test]
fn text_lengths_are_bounded() {
    let (short, long) = ("abc", "x".repeat(101));
    let somebody = shared().identity(&fresh("somebody"), json!({}));
    let mut all = Differences::default();
    let of =
        |method: &str, path: &str, body: Json| shared().admin.ask(method, path).json(&body).send();
    let with = |name: &str, value: &str| {
        let mut body = Map::from_iter([
            ("username".to_owned(), "somebody".into()),
            ("password".to_owned(), "a good one".into()),
        ]);
        body.insert("currentPassword".into(), "a good one".into());
        body.insert("method".into(), "updb".into());
        body.insert("identityId".into(), somebody.as_str().into());
        body.insert(name.into(), value.into());
        Json::Object(body)
    };
    for (method, path) in [
        ("POST", "/authenticate?method=password"),
        ("POST", "/authenticators"),
        ("PUT", "/authenticators/x"),
        ("PATCH", "/authenticators/x"),
        ("PUT", "/current-identity/authenticators/x"),
        ("PATCH", "/current-identity/authenticators/x"),
        (
            "POST",
            "/edge/client/v1/enroll/updb?token=5f0c7f6e-3b1c-4d57-9a20-6b1f0f6f5e11",
        ),
    ] {
        for (name, value) in [
            ("username", short),
            ("username", long.as_str()),
            ("password", "1234"),
            ("password", long.as_str()),
        ] {
            let answer = of(method, path, with(name, value));
            all.check(name, &answer, Expected::Field(name));
            assert!(
                name != "password" || answer.json["error"]["cause"]["value"] == "",
                "a password is not repeated: {}",
                answer.text
            );
        }
    }
    let body = json!({ "username": "somebody", "password": "a good one", "envInfo": { "os": "x".repeat(256) } });
    all.check(
        "envInfo.os",
        &of("POST", "/authenticate?method=password", body),
        Expected::Field("envInfo.os"),
    );
}
