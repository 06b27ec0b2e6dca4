//! Checks and claims that nothing can satisfy.

use super::*;

fn os(systems: Json) -> Json {
    json!({ "typeId": "OS", "operatingSystems": systems })
}

/// Demands that are refused, with the member that the error names.
fn refused_demands() -> Vec<(Json, &'static str)> {
    let linux = |versions: Json| json!({ "type": "Linux", "versions": versions });
    let good = one("Linux", "/bin/a", &[], &[]);
    let several = |bad: Json| processes("AnyOf", &[good.clone(), bad]);
    let mut demands = vec![
        (
            os(json!([
                linux(json!([">=1.0.0"])),
                linux(json!([">=2.0.0"]))
            ])),
            "operatingSystems",
        ),
        (
            os(json!([linux(json!([])), { "type": "Windows", "versions": [] }, linux(json!([]))])),
            "operatingSystems",
        ),
        (
            several(one("Linux", "/bin/a", &["ab"], &[])),
            "processes.1.path",
        ),
        (several(one("Linux", "", &[], &[])), "processes.1.path"),
        (several(one("Linux", " ", &[], &[])), "processes.1.path"),
        (
            several(one("Linux", "/bin/b", &["ab", ""], &[])),
            "processes.1.hashes",
        ),
        (
            several(one("Linux", "/bin/b", &[" - "], &[])),
            "processes.1.hashes",
        ),
        (
            several(one("Linux", "/bin/b", &["sha512:abcd"], &[])),
            "processes.1.hashes",
        ),
        (
            several(one("Linux", "/bin/b", &[], &[""])),
            "processes.1.signerFingerprints",
        ),
        (
            several(one("Linux", "/bin/b", &[], &["::"])),
            "processes.1.signerFingerprints",
        ),
        (process(&[("path", json!(""))]), "process.path"),
        (process(&[("path", json!("\t"))]), "process.path"),
        (process(&[("hashes", json!([""]))]), "process.hashes"),
        (
            process(&[("hashes", json!([sha512(), "zz"]))]),
            "process.hashes",
        ),
        (
            process(&[("hashes", json!([format!("0x{}", "ab".repeat(64))]))]),
            "process.hashes",
        ),
        (
            process(&[("signerFingerprint", json!(" "))]),
            "process.signerFingerprint",
        ),
        (
            process(&[("signerFingerprint", json!(":-:"))]),
            "process.signerFingerprint",
        ),
        (
            process(&[("signerFingerprint", json!("my signer"))]),
            "process.signerFingerprint",
        ),
    ];
    for range in [
        "<0.0.0",
        ">=2.0.0 <1.0.0",
        "1.0.0 2.0.0",
        "!x",
        "1.x 2.x || <0.0.0",
    ] {
        demands.push((
            os(json!([linux(json!(["5.4.0", range]))])),
            "operatingSystems",
        ));
    }
    for address in [
        "",
        " ",
        "zz",
        "00:1b",
        "00:1b:44:11:3a:b",
        "00:1b:44:11:3a:b7:00",
        "aabbccddeefg",
        "0xaabbccddeeff",
        "MAC aabbccddeeff",
    ] {
        demands.push((
            json!({ "typeId": "MAC", "macAddresses": ["00:1B:44:11:3A:B7", address] }),
            "macAddresses",
        ));
    }
    for domain in ["", "  ", " corp", "corp\n"] {
        demands.push((
            json!({ "typeId": "DOMAIN", "domains": ["lab", domain] }),
            "domains",
        ));
    }
    demands
}

#[test]
fn checks_nothing_satisfies_are_refused() {
    let admin = &shared().admin;
    for (demand, member) in refused_demands() {
        let body = check(&demand);
        admin
            .post("/posture-checks", body.clone())
            .refused(400, "COULD_NOT_VALIDATE", member);
        assert_eq!(
            admin
                .list("/posture-checks", &format!("name = {}", body["name"]), "")
                .expect(200)
                .total(),
            0
        );

        let sound = match demand["typeId"].as_str().unwrap() {
            "OS" => os(json!([{ "type": "macOS", "versions": [] }])),
            "MAC" => json!({ "typeId": "MAC", "macAddresses": ["aa:aa:aa:aa:aa:aa"] }),
            "DOMAIN" => json!({ "typeId": "DOMAIN", "domains": ["corp"] }),
            "PROCESS" => process(&[]),
            _ => processes("AllOf", &[one("Linux", "/z", &[], &[])]),
        };
        let path = format!(
            "/posture-checks/{}",
            admin
                .post("/posture-checks", check(&sound))
                .expect(201)
                .id()
        );
        let before = admin.get(&path).expect(200).data().clone();
        admin
            .put(&path, body)
            .refused(400, "COULD_NOT_VALIDATE", member);
        admin
            .patch(&path, demand)
            .refused(400, "COULD_NOT_VALIDATE", member);
        assert_eq!(admin.get(&path).expect(200).data(), &before);
    }
}

#[test]
fn every_broken_value_is_named() {
    let demand = processes(
        "AnyOf",
        &[one("Linux", "", &["x"], &["y"]), one("Linux", "", &[], &[])],
    );
    let refused = shared()
        .admin
        .post("/posture-checks", check(&demand))
        .expect(400);
    let fields: Vec<&str> = refused.json["error"]["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["field"].as_str().unwrap())
        .collect();
    let wanted = [
        "processes.0.path",
        "processes.0.hashes",
        "processes.0.signerFingerprints",
        "processes.1.path",
        "processes.1.path",
    ];
    assert_eq!(fields, wanted, "{}", refused.text);
}

#[test]
fn matchable_checks_are_not_named() {
    let linux = |versions: Json| json!({ "type": "Linux", "versions": versions });
    let sound = [
        os(
            json!([linux(json!([">=5.0.0 <6.0.0", "7.x", "!8.0.0"])), { "type": "Windows", "versions": [] }]),
        ),
        json!({ "typeId": "MAC", "macAddresses": ["00:1B:44:11:3A:B7", "001b.4411.3ab7", "02-00-00-00-00-02", "0011223344556677"] }),
        json!({ "typeId": "DOMAIN", "domains": ["Corp", "two words", "ü"] }),
        process(&[
            ("hashes", json!([sha512()])),
            ("signerFingerprint", json!(SHA1)),
        ]),
        process(&[("hashes", json!([])), ("signerFingerprint", json!(""))]),
        processes(
            "AllOf",
            &[
                one("Windows", "C:\\a.exe", &[&sha512()], &[SHA1]),
                one("WindowsServer", "C:\\a.exe", &[], &[]),
            ],
        ),
        processes(
            "AnyOf",
            &[one("Linux", "/a", &[], &[]), one("macOS", "/a", &[], &[])],
        ),
        json!({ "typeId": "MFA" }),
    ];
    for demand in sound {
        let made = shared()
            .admin
            .post("/posture-checks", check(&demand))
            .expect(201);
        assert_eq!(made.header(HEADER), "", "{demand}");
    }
}

#[test]
fn claims_nothing_matches_are_refused() {
    let admin = &shared().admin;
    let (uri, scheme) = (("location", json!("SAN_URI")), ("matcher", json!("SCHEME")));
    let criteria = |text: &str| ("matcherCriteria", json!(text));
    for (claim, member) in [
        (
            vec![("matcher", json!("PREFIX"))],
            "externalIdClaim.matcherCriteria",
        ),
        (
            vec![
                ("location", json!("SAN_EMAIL")),
                ("matcher", json!("PREFIX")),
            ],
            "externalIdClaim.matcherCriteria",
        ),
        (
            vec![uri.clone(), scheme.clone()],
            "externalIdClaim.matcherCriteria",
        ),
        (
            vec![uri.clone(), scheme.clone(), criteria("spiffe:")],
            "externalIdClaim.matcherCriteria",
        ),
        (
            vec![uri.clone(), scheme.clone(), criteria("spiffe://plant")],
            "externalIdClaim.matcherCriteria",
        ),
        (
            vec![uri.clone(), scheme.clone(), criteria("1x")],
            "externalIdClaim.matcherCriteria",
        ),
        (
            vec![uri.clone(), scheme.clone(), criteria(" spiffe")],
            "externalIdClaim.matcherCriteria",
        ),
        (
            vec![uri.clone(), ("matcher", json!("SUFFIX")), criteria("/x")],
            "externalIdClaim.matcher",
        ),
        (vec![("index", json!(1))], "externalIdClaim.index"),
        (
            vec![
                ("matcher", json!("SUFFIX")),
                criteria(".x"),
                ("index", json!(2)),
            ],
            "externalIdClaim.index",
        ),
        (
            vec![
                ("parser", json!("SPLIT")),
                ("parserCriteria", json!(",")),
                ("index", json!(70_000)),
            ],
            "externalIdClaim.index",
        ),
    ] {
        let body = authority(&claim);
        admin
            .post("/cas", body.clone())
            .refused(400, "COULD_NOT_VALIDATE", member);
        let path = format!(
            "/cas/{}",
            admin.post("/cas", authority(&[])).expect(201).id()
        );
        admin
            .put(&path, body.clone())
            .refused(400, "COULD_NOT_VALIDATE", member);
        admin
            .patch(&path, json!({ "externalIdClaim": body["externalIdClaim"] }))
            .refused(400, "COULD_NOT_VALIDATE", member);
        assert_eq!(
            admin.get(&path).expect(200).data()["externalIdClaim"]["matcher"],
            "ALL"
        );
    }
}
