//! Values that tunnelers understand, and values that they misread.

use super::refused;

/// Data of `host.v1` with these translations.
fn translated(items: &str) -> String {
    format!(
        r#"{{"protocol": "tcp", "forwardAddress": true, "allowedAddresses": ["10.0.0.0/8"], "port": 80, "forwardAddressTranslations": [{items}]}}"#
    )
}

#[test]
fn what_tunnelers_understand_is_accepted() {
    for (name, data) in [
        (
            "ziti-tunneler-client.v1",
            r#"{"hostname": "db.internal", "port": 5432}"#,
        ),
        (
            "ziti-tunneler-server.v1",
            r#"{"hostname": "localhost", "port": 1, "protocol": "udp"}"#,
        ),
        (
            "intercept.v1",
            r#"{"protocols": ["tcp"], "addresses": ["*.internal", "10.0.0.0/8", "fe80::1"], "portRanges": [{"low": 1, "high": 2}]}"#,
        ),
        (
            "host.v1",
            r#"{"protocol": "tcp", "forwardAddress": true, "allowedAddresses": ["*.a"], "port": 80, "listenOptions": {"cost": 10}}"#,
        ),
        (
            "host.v1",
            r#"{"protocol": "tcp", "address": "a", "port": 80, "portChecks": [{"interval": "1s", "timeout": "1s", "address": "a:80"}]}"#,
        ),
        (
            "host.v2",
            r#"{"terminators": [{"protocol": "tcp", "address": "localhost", "port": 80}]}"#,
        ),
        (
            "host.v1",
            &translated(
                r#"{"from": "10.0.0.0", "to": "192.168.0.0", "prefixLength": 8}, {"from": "fd00::", "to": "fe80::", "prefixLength": 64}"#,
            ),
        ),
        (
            "host.v2",
            &format!(
                r#"{{"terminators": [{}]}}"#,
                translated(r#"{"from": "10.0.0.0", "to": "10.1.0.0", "prefixLength": 32}"#)
            ),
        ),
        (
            "intercept.v1",
            r#"{"protocols": ["tcp"], "addresses": ["a"], "portRanges": [{"low": 1, "high": 2}], "allowedSourceAddresses": ["10.0.0.0/8"]}"#,
        ),
        (
            "proxy.v1",
            r#"{"port": 8080, "protocols": ["tcp", "udp"], "binding": "0.0.0.0"}"#,
        ),
        ("interfaces.v1", r#"{"interfaces": ["eth0", "eth1"]}"#),
        (
            "l2.host.v1",
            r#"{"bridgeIfs": ["eth0"], "listenOptions": {"cost": 10}}"#,
        ),
        (
            "l2.intercept.v1",
            r#"{"ethTypes": ["0x0800", "0X86dd"], "dialOptions": {"identity": "a"}}"#,
        ),
    ] {
        assert_eq!(refused(name, data), None, "{name} {data}");
    }
}

#[test]
fn misread_values_are_refused() {
    for (name, data, field) in [
        ("ziti-tunneler-client.v1", r#"{"hostname": "a"}"#, "(root)"),
        (
            "intercept.v1",
            r#"{"protocols": ["tcp"], "addresses": ["a"], "portRanges": [{"low": 1, "high": 70000}]}"#,
            "portRanges.0.high",
        ),
        (
            "host.v1",
            r#"{"forwardProtocol": true, "address": "a", "port": 1}"#,
            "(root)",
        ),
        (
            "host.v1",
            r#"{"protocol": "tcp", "address": "a", "port": 1, "forwardAddress": false}"#,
            "forwardAddress",
        ),
        (
            "host.v2",
            r#"{"terminators": [{"protocol": "tcp"}]}"#,
            "terminators.0",
        ),
        (
            "host.v1",
            &translated(r#"{"from": "10.0.0.0", "to": "10.1.0.0", "prefixLength": 33}"#),
            "forwardAddressTranslations.0",
        ),
        (
            "host.v1",
            &translated(r#"{"from": "10.0.0.0", "to": "fe80::", "prefixLength": 8}"#),
            "forwardAddressTranslations.0",
        ),
        (
            "host.v1",
            &translated(r#"{"from": "fd00::", "to": "fe80::", "prefixLength": 129}"#),
            "forwardAddressTranslations.0",
        ),
        (
            "host.v1",
            &translated(r#"{"from": "web", "to": "10.1.0.0", "prefixLength": 8}"#),
            "forwardAddressTranslations.0",
        ),
        (
            "host.v1",
            &translated(r#"{"from": "10.0.0.0", "to": "10.1.0.0", "prefixLength": 8, "more": 1}"#),
            "forwardAddressTranslations.0",
        ),
        ("proxy.v1", r#"{"port": 0, "protocols": ["tcp"]}"#, "port"),
        (
            "proxy.v1",
            r#"{"port": 80, "protocols": ["sctp"]}"#,
            "protocols.0",
        ),
        ("proxy.v1", r#"{"protocols": ["tcp"]}"#, "(root)"),
        (
            "proxy.v1",
            r#"{"port": 80, "protocols": ["tcp"], "more": 1}"#,
            "(root)",
        ),
        ("interfaces.v1", r#"{}"#, "(root)"),
        (
            "l2.host.v1",
            r#"{"listenOptions": {"cost": 65536}}"#,
            "listenOptions.cost",
        ),
        ("l2.intercept.v1", r#"{"ethTypes": ["800"]}"#, "ethTypes.0"),
        ("l2.intercept.v1", r#"{"dialOptions": {}}"#, "(root)"),
    ] {
        assert_eq!(refused(name, data).as_deref(), Some(field), "{name} {data}");
    }
}
