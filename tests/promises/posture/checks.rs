//! What each kind of check compares.

use super::*;

#[test]
fn operating_systems_match_family_and_range() {
    let wanted = json!({ "typeId": "OS", "operatingSystems": [
        { "type": "Windows", "versions": [">=10.0.0"] },
        { "type": "Linux", "versions": [] },
    ]});
    check(
        &demand(wanted),
        &[
            (false, vec![]),
            (true, vec![os("windows", "10.0.19041")]),
            (true, vec![os("Windows", "10.0.1-beta")]),
            (false, vec![os("Windows", "10.0")]),
            (false, vec![os("Windows", "10.0.1.5")]),
            (true, vec![os("Linux", "rolling")]),
            (false, vec![os("macOS", "10.0.0")]),
            // An endpoint has one state of its operating system: the last report counts.
            (false, vec![os("Linux", "6.1.0"), os("BeOS", "5.0.0")]),
        ],
    );
}

#[test]
fn domains_and_addresses_ignore_case() {
    let domain = |text: &str| json!({ "typeId": "DOMAIN", "id": "x", "domain": text });
    let wanted = json!({ "typeId": "DOMAIN", "domains": ["Corp.Example", "lab"] });
    check(
        &demand(wanted),
        &[
            (false, vec![]),
            (true, vec![domain("corp.EXAMPLE")]),
            (false, vec![domain("corp")]),
            (false, vec![domain("")]),
        ],
    );
    let addresses = |list: &[&str]| json!({ "typeId": "MAC", "id": "x", "macAddresses": list });
    let wanted =
        json!({ "typeId": "MAC", "macAddresses": ["00:1B:44:11:3A:B7", "no digits: xyz"] });
    check(
        &demand(wanted),
        &[
            (true, vec![addresses(&["ff", "001b.4411.3ab7"])]),
            (false, vec![addresses(&["ff"])]),
            (false, vec![addresses(&[])]),
        ],
    );
    // A text without hexadecimal digits is not an address, neither in the check nor in the report.
    check(
        &demand(json!({ "typeId": "MAC", "macAddresses": ["zz"] })),
        &[(false, vec![addresses(&["zz", ""])])],
    );
}

#[test]
fn process_checks_compare_hash_and_signer() {
    let wanted = json!({ "typeId": "PROCESS", "process":
        { "osType": "Linux", "path": "/bin/guard", "hashes": ["AB:12", "cd34"], "signerFingerprint": "EE:FF" } });
    check(
        &demand(wanted),
        &[
            (false, vec![]),
            (
                true,
                vec![process(
                    "check",
                    "/bin/guard",
                    true,
                    "AB12",
                    &["00", "eeff"],
                )],
            ),
            (
                true,
                vec![process("check", "/elsewhere", true, "cd-34", &["EE FF"])],
            ),
            (
                false,
                vec![process("other", "/bin/guard", true, "ab12", &["eeff"])],
            ),
            (
                false,
                vec![process("check", "/bin/guard", false, "ab12", &["eeff"])],
            ),
            (
                false,
                vec![process("check", "/bin/guard", true, "ab13", &["eeff"])],
            ),
            (
                false,
                vec![process("check", "/bin/guard", true, "ab12", &[])],
            ),
            (
                false,
                vec![
                    process("check", "/bin/guard", true, "ab12", &["eeff"]),
                    process("check", "", false, "", &[]),
                ],
            ),
        ],
    );
    let running =
        json!({ "typeId": "PROCESS", "process": { "osType": "Linux", "path": "/bin/guard" } });
    check(
        &demand(running),
        &[(true, vec![process("check", "", true, "", &[])])],
    );
    let absurd = json!({ "typeId": "PROCESS", "process": { "osType": "Linux", "path": "/bin/guard", "hashes": ["zz"] } });
    check(
        &demand(absurd),
        &[(false, vec![process("check", "", true, "", &[])])],
    );
}

#[test]
fn processes_are_told_by_path() {
    let wanted = |semantic: &str| {
        demand(
            json!({ "typeId": "PROCESS_MULTI", "semantic": semantic, "processes": [
                { "osType": "Linux", "path": "/a", "hashes": ["AB"], "signerFingerprints": ["01", "02"] },
                { "osType": "Linux", "path": "/b" },
            ]}),
        )
    };
    let (a, b) = (
        process("x", "/a", true, "ab", &["02"]),
        process("y", "/b", true, "", &[]),
    );
    check(
        &wanted("AllOf"),
        &[
            (true, vec![a.clone(), b.clone()]),
            (false, vec![a.clone()]),
            (false, vec![a.clone(), process("y", "/B", true, "", &[])]),
            (
                false,
                vec![a.clone(), b.clone(), process("x", "/a", true, "", &["02"])],
            ),
        ],
    );
    check(
        &wanted("AnyOf"),
        &[
            (true, vec![b.clone()]),
            (true, vec![a.clone()]),
            (false, vec![process("x", "/a", true, "ab", &["03"])]),
            (false, vec![]),
        ],
    );
}

/// Evidence of events this many seconds ago.
fn present(passed: Option<i64>, woken: Option<i64>, unlocked: Option<i64>) -> Evidence {
    let ago = |seconds: Option<i64>| {
        seconds.map(|seconds| CalendarTime::at(NOW.minus(Duration::from_secs(seconds as u64))))
    };
    let mfa_state = SessionMfaState {
        passed_at: ago(passed),
        woken_at: ago(woken),
        unlocked_at: ago(unlocked),
    };
    Evidence {
        mfa_state,
        ..Evidence::none(CalendarTime::at(NOW))
    }
}

#[test]
fn codes_count_until_grace_ends() {
    let cases = [
        (
            code(0, false, false),
            present(None, None, None),
            (false, -1),
        ),
        (
            code(0, true, true),
            present(Some(1_000_000), None, None),
            (true, -1),
        ),
        (
            code(600, false, false),
            present(None, None, None),
            (false, 0),
        ),
        (
            code(600, false, false),
            present(Some(599), None, None),
            (true, 1),
        ),
        (
            code(600, false, false),
            present(Some(601), None, None),
            (false, 0),
        ),
        (
            code(600, false, false),
            present(Some(10), Some(5), Some(5)),
            (true, 590),
        ),
        (
            code(600, true, false),
            present(Some(10), Some(5), None),
            (true, 295),
        ),
        (
            code(600, true, false),
            present(Some(500), Some(5), None),
            (true, 100),
        ),
        (
            code(600, true, false),
            present(Some(500), Some(299), None),
            (true, 1),
        ),
        (
            code(600, true, false),
            present(Some(500), Some(300), None),
            (false, 0),
        ),
        (
            code(600, true, false),
            present(Some(500), Some(501), None),
            (true, 100),
        ),
        (
            code(600, false, true),
            present(Some(500), Some(300), Some(400)),
            (false, 0),
        ),
        (
            code(-1, false, true),
            present(Some(500), None, Some(400)),
            (false, -1),
        ),
    ];
    for (demand, evidence, (passes, remaining)) in cases {
        let verdict = evaluate(&demand, "check", &evidence);
        assert_eq!(
            (verdict.passes, verdict.remaining),
            (passes, remaining),
            "{demand:?} {evidence:?}"
        );
    }
}

#[test]
fn old_clients_see_no_timeout() {
    let wanted =
        demand(json!({ "typeId": "MFA", "timeoutSeconds": 600, "ignoreLegacyEndpoints": true }));
    let sdk = |of: &str, version: &str| {
        serde_json::from_value(json!({ "type": of, "version": version })).unwrap()
    };
    let remaining = |evidence: Evidence| evaluate(&wanted, "check", &evidence).remaining;
    let passed = present(Some(100), None, None);
    assert_eq!(remaining(passed.clone()), -1);
    assert_eq!(
        remaining(passed.clone().seen_by(&sdk("ziti-sdk-c", "v0.25.0"))),
        500
    );
    assert_eq!(
        remaining(passed.clone().seen_by(&sdk("ziti-sdk-c", "1.2.3"))),
        500
    );
    assert_eq!(
        remaining(passed.clone().seen_by(&sdk("ziti-sdk-c", "0.24.9"))),
        -1
    );
    assert_eq!(
        remaining(passed.seen_by(&sdk("ziti-sdk-golang", "1.0.0"))),
        -1
    );
    // The answer says that such a code never expires, but old clients are still judged by the
    // timeout.
    assert!(!evaluate(&wanted, "check", &present(Some(700), None, None)).passes);
}

proptest! {
    /// A check passes exactly if time remains.
    #[test]
    fn remaining_times_are_correct(
        timeout in 1i64..2000, wake: bool, unlock: bool,
        passed in prop::option::of(0i64..2000), woken in prop::option::of(0i64..2000), unlocked in prop::option::of(0i64..2000),
    ) {
        let mut evidence = present(passed, woken, unlocked);
        evidence.knows_timeouts = true;
        let verdict = evaluate(&code(timeout, wake, unlock), "check", &evidence);
        // In the second in which the time runs out, both results are right.
        let is_last = passed == Some(timeout);
        prop_assert!(is_last || verdict.passes == (verdict.remaining > 0), "{verdict:?}");
    }
}
