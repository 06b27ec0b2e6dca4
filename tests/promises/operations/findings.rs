//! What health and doctor tell.

use super::*;

#[test]
fn health_tells_why() {
    let server = TestServer::start();
    let checks = server.admin.get("//health-checks").expect(200).json;
    assert_eq!(
        (&checks["data"]["healthy"], &checks["meta"]),
        (&json!(true), &json!({}))
    );
    let ids: Vec<&Json> = checks["data"]["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| &check["id"])
        .collect();
    assert_eq!(ids, [&json!("store.write"), &json!("store.file")]);
    let short = server
        .admin
        .get("//health-checks?type=short")
        .expect(200)
        .json;
    assert_eq!(
        short["data"]["checks"][0],
        json!({ "id": "store.write", "healthy": true })
    );
    fs::rename(server.data(), server.data().with_extension("moved")).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let answer = loop {
        let answer = server.admin.get("//ready");
        if answer.status == 503 || Instant::now() > until {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(
        (answer.status, &answer.json["reason"]),
        (503, &json!("the data file is no longer at its path"))
    );
    let checks = server.admin.get("//health-checks").expect(200).json;
    assert_eq!(
        (
            &checks["data"]["healthy"],
            &checks["data"]["checks"][1]["healthy"]
        ),
        (&json!(false), &json!(false))
    );
}

/// The findings of `overkeep doctor` about a controller that listens at an address.
fn doctor(server: &TestServer, listen: &str, more: &[(&str, &str)]) -> (i32, Vec<Json>) {
    let variables: Vec<(&str, &str)> = [("OVERKEEP_LISTEN", listen)]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    let ran = on_host_with(server, &variables, &["doctor", "-o", "json"]);
    let findings: Vec<Json> = serde_json::from_str(&ran.out)
        .unwrap_or_else(|error| panic!("{error}: {} {}", ran.out, ran.err));
    (ran.status, findings)
}

#[test]
fn doctor_finds_what_troubles() {
    let server = TestServer::start();
    let listen = server.bound().to_string();
    let snapshots = TempDir::new().unwrap();
    let (status, findings) = doctor(&server, &listen, &[]);
    assert_eq!(status, 3);
    for check in [
        "controller",
        "port",
        "advertised address",
        "certificates",
        "key sets",
        "data file",
        "disk",
    ] {
        assert_eq!(of(&findings, check)["healthy"], true, "{findings:#?}");
    }
    assert_eq!(of(&findings, "snapshots")["healthy"], false);
    assert!(
        findings
            .iter()
            .all(|finding| finding["healthy"] == (finding["mend"] == "")),
        "{findings:#?}"
    );
    let name = fresh("unreachable");
    let signer = json!({
        "name": name, "issuer": fresh("https://idp.test"), "audience": "a", "enabled": true, "jwksEndpoint": "https://127.0.0.1:9/keys",
        "useExternalId": true, "claimsProperty": "sub"
    });
    server
        .admin
        .post("/external-jwt-signers", signer)
        .expect(201);
    let directory = snapshots.path().to_str().unwrap();
    let more = [
        ("OVERKEEP_ADVERTISE", "name.invalid:1280"),
        ("OVERKEEP_SNAPSHOTS_DIRECTORY", directory),
    ];
    let (_, findings) = doctor(&server, &listen, &more);
    assert_eq!(of(&findings, "advertised address")["healthy"], false);
    assert!(
        of(&findings, "key sets")["detail"]
            .as_str()
            .unwrap()
            .contains(&name),
        "{findings:#?}"
    );
    assert!(
        of(&findings, "snapshots")["detail"]
            .as_str()
            .unwrap()
            .contains("there is none"),
        "{findings:#?}"
    );
    // Another controller is at the advertised address.
    let other = TestServer::start();
    let (_, findings) = doctor(
        &server,
        &listen,
        &[("OVERKEEP_ADVERTISE", &other.bound().to_string())],
    );
    assert_eq!(
        of(&findings, "advertised address")["healthy"],
        false,
        "{findings:#?}"
    );
    let lines = on_host_with(&server, &[("OVERKEEP_LISTEN", &listen)], &["doctor"]);
    assert!(
        lines.out.contains("ok   controller") && lines.out.contains("FAIL snapshots"),
        "{}",
        lines.out
    );
}

#[test]
fn open_policies_are_found() {
    let server = TestServer::start();
    let listen = server.bound().to_string();
    let found = || {
        let served = server.admin.get("/overkeep/v1/doctor").expect(200);
        let (_, told) = doctor(&server, &listen, &[]);
        let finding = of(served.data().as_array().unwrap(), "signers").clone();
        assert_eq!(&finding, of(&told, "signers"));
        (
            finding["healthy"] == true,
            finding["detail"].as_str().unwrap().to_owned(),
        )
    };
    assert!(found().0, "there is no signer");
    let signer = json!({
        "name": "hr", "issuer": fresh("https://idp.test"), "audience": "a", "enabled": false, "jwksEndpoint": "https://127.0.0.1:9/keys"
    });
    let signer = server
        .admin
        .post("/external-jwt-signers", signer)
        .expect(201)
        .id();
    assert!(found().0, "it is disabled");
    let path = format!("/external-jwt-signers/{signer}");
    server
        .admin
        .patch(&path, json!({ "enabled": true }))
        .expect(200);
    let (is_good, detail) = found();
    assert!(
        !is_good
            && ["(hr)", "(Default)", "1 administrators"]
                .iter()
                .all(|part| detail.contains(part)),
        "{detail}"
    );
    let policy = |ext_jwt: Json| {
        server
            .admin
            .patch(
                "/auth-policies/default",
                json!({ "primary": { "extJwt": ext_jwt } }),
            )
            .expect(200)
    };
    policy(json!({ "allowedSigners": [signer] }));
    assert!(found().0, "the policy lists it");
    policy(json!({ "allowedSigners": [], "allowed": false }));
    assert!(found().0, "the policy allows no tokens");
    // Another open policy counts as soon as an identity has it.
    let other = crate::explain::auth_policy(
        &server,
        json!({ "primary": { "extJwt": { "allowed": true } } }),
    );
    assert!(found().0);
    server.identity(&fresh("member"), json!({ "authPolicyId": other }));
    let (is_good, detail) = found();
    assert!(
        !is_good && detail.contains("0 administrators") && !detail.contains("(Default)"),
        "{detail}"
    );
}

#[test]
fn doctor_needs_no_configuration() {
    let server = TestServer::start();
    let ran = on_host(&server, &["doctor", "-o", "json"]);
    let findings: Vec<Json> = serde_json::from_str(&ran.out)
        .unwrap_or_else(|error| panic!("{error}: {} {}", ran.out, ran.err));
    for check in [
        "controller",
        "advertised address",
        "certificates",
        "key sets",
        "data file",
        "disk",
    ] {
        assert_eq!(of(&findings, check)["healthy"], true, "{findings:#?}");
    }
    // The address of the running controller, not the default one.
    assert!(
        of(&findings, "advertised address")["detail"]
            .as_str()
            .unwrap()
            .starts_with(&server.bound().to_string()),
        "{findings:#?}"
    );
    assert!(
        findings.iter().all(|finding| finding["check"] != "port"),
        "{findings:#?}"
    );
}

#[test]
fn findings_of_host_are_served() {
    let server = TestServer::start();
    let served = server.admin.get("/overkeep/v1/doctor").expect(200);
    let findings = served.data().as_array().unwrap();
    let healthy: Vec<bool> = ["data file", "disk", "snapshots"]
        .map(|check| of(findings, check)["healthy"] == true)
        .into();
    assert_eq!(healthy, [true, true, false], "{}", served.text);
    let (_, told) = doctor(&server, &server.bound().to_string(), &[]);
    assert_eq!(of(findings, "snapshots"), of(&told, "snapshots"));
}

#[test]
fn findings_of_network_are_served() {
    // The port is free until the controller takes it.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let server = TestServer::with(Clock::system(), |config| {
        config.listen = free.into();
        config.advertise = vec![free.into(), "name.invalid:1280".parse().unwrap()];
    });
    assert!(
        !server
            .admin
            .get("/overkeep/v1/doctor")
            .expect(200)
            .text
            .contains("advertised address")
    );
    let name = fresh("unreachable");
    let signer = json!({
        "name": name, "issuer": fresh("https://idp.test"), "audience": "a", "enabled": true, "jwksEndpoint": "https://127.0.0.1:9/keys"
    });
    server
        .admin
        .post("/external-jwt-signers", signer)
        .expect(201);
    let served = server
        .admin
        .get("/overkeep/v1/doctor?network=true")
        .expect(200);
    let findings = served.data().as_array().unwrap();
    let advertised: Vec<&Json> = findings
        .iter()
        .filter(|finding| finding["check"] == "advertised address")
        .collect();
    assert_eq!(
        [&advertised[0]["healthy"], &advertised[1]["healthy"]],
        [true, false],
        "{}",
        served.text
    );
    assert_eq!(
        (
            &of(findings, "port")["healthy"],
            &of(findings, "certificates")["healthy"]
        ),
        (&json!(true), &json!(true)),
        "{}",
        served.text
    );
    assert!(
        of(findings, "key sets")["detail"]
            .as_str()
            .unwrap()
            .contains(&name),
        "{}",
        served.text
    );
}

#[test]
fn doctor_fetches_no_plain_keys() {
    let server = TestServer::with(Clock::system(), |config| config.key_sets.allow_http = true);
    let signer = json!({
        "name": fresh("plain"), "issuer": fresh("https://idp.test"), "audience": "a", "enabled": true, "jwksEndpoint": "http://idp.invalid/keys"
    });
    server
        .admin
        .post("/external-jwt-signers", signer)
        .expect(201);
    let detail = |server: &TestServer| {
        let served = server
            .admin
            .get("/overkeep/v1/doctor?network=true")
            .expect(200);
        of(served.data().as_array().unwrap(), "key sets")["detail"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(!detail(&server).contains("allow-http"));
    let server = server.restarted(|_| ());
    assert!(
        detail(&server).contains("must be an https address; key-sets.allow-http"),
        "{}",
        detail(&server)
    );
}

#[test]
fn last_hour_counts_logins() {
    let server = TestServer::start();
    let (_, alice) = server.user(&fresh("alice"), json!({}));
    let refused = server.admin.post(
        "/authenticate?method=password",
        json!({ "username": "admin", "password": "not the password" }),
    );
    refused.refused(401, "INVALID_AUTH", "");
    alice.get("/overkeep/v1/last-hour").expect(401);
    let until = Instant::now() + Duration::from_secs(60);
    let sums = loop {
        let hour = server.admin.get("/overkeep/v1/last-hour").expect(200);
        let steps = hour.data()["steps"].as_array().unwrap();
        let sum = |member: &str| {
            steps
                .iter()
                .map(|step| step[member].as_u64().unwrap())
                .sum::<u64>()
        };
        let sums = (sum("logins"), sum("refusals"));
        if sums.0 >= 2 && sums.1 >= 1 || Instant::now() > until {
            break (
                sums,
                steps
                    .windows(2)
                    .all(|pair| pair[0]["at"].as_str() < pair[1]["at"].as_str()),
            );
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(sums.0.0 >= 2 && sums.0.1 >= 1 && sums.1, "{sums:?}");
}

#[test]
fn attention_counts_all_records() {
    let clock = Clock::manual(Clock::system().now());
    let server = TestServer::with(clock.clone(), |_| ());
    let prefix = fresh("attended");
    let ids: Vec<String> = (0..7)
        .map(|n| {
            server.identity(
                &format!("{prefix}-{n}"),
                json!({ "enrollment": { "ott": true } }),
            )
        })
        .collect();
    let disable = |id: &str, minutes: u64| {
        server
            .admin
            .post(
                &format!("/identities/{id}/disable"),
                json!({ "durationMinutes": minutes }),
            )
            .expect(200);
    };
    ids.iter().take(6).for_each(|id| disable(id, 0));
    disable(&ids[6], 1);
    let asked = |member: &str| {
        let answer = server.admin.get("/overkeep/v1/attention").expect(200);
        let of = |member: &str| {
            (
                answer.data()[member]["total"].as_u64().unwrap(),
                answer.data()[member]["first"].clone(),
            )
        };
        of(member)
    };
    let named = |first: &Json| {
        first
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let (total, first) = asked("disabledIdentities");
    assert_eq!(
        (total, named(&first)),
        (7, (0..5).map(|n| format!("{prefix}-{n}")).collect())
    );
    assert_eq!(first[0]["id"], json!(ids[0]));
    let (total, first) = asked("outstandingEnrollments");
    assert_eq!(
        (
            total,
            first.as_array().unwrap().len(),
            asked("expiredEnrollments").0
        ),
        (7, 5, 0)
    );
    assert!(
        ids.contains(&first[0]["identityId"].as_str().unwrap().to_owned())
            && named(&first)[0].starts_with(&prefix),
        "{first}"
    );
    clock.advance(Duration::from_secs(61));
    assert_eq!(
        asked("disabledIdentities").0,
        6,
        "one was disabled for a minute"
    );
    clock.advance(Duration::from_secs(30 * 24 * 60 * 60));
    let server = server.restarted(|_| ());
    let answer = server.admin.get("/overkeep/v1/attention").expect(200);
    assert_eq!(
        (
            &answer.data()["outstandingEnrollments"]["total"],
            &answer.data()["expiredEnrollments"]["total"]
        ),
        (&json!(0), &json!(7))
    );
    server.anonymous().get("/overkeep/v1/attention").expect(401);
}
