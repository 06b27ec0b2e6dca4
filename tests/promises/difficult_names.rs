//! Names with the characters that languages use for themselves: backslashes, quotes, commas,
//! control characters. The command line finds each of them.

use serde_json::json;

use crate::{command_line::on_host, harness::TestServer};

const NAMES: [&str; 9] = [
    r"CORP\nina",
    r"\\server\share",
    r"ends with \",
    "a,b",
    "\"a,b\"",
    "say \"hi\", twice",
    "tab\there",
    "bell\u{7}",
    "#50% @home",
];

#[test]
fn commands_find_difficult_names() {
    let server = TestServer::start();
    // Others that a careless literal would find.
    for near in [
        "CORP",
        "CORP\nina",
        r"\server\share",
        "a",
        "b",
        "tabthere",
        "tab here",
    ] {
        server.service(near, json!({}));
    }
    for (index, name) in NAMES.iter().enumerate() {
        let id = server.service(name, json!({}));
        let shown = on_host(&server, &["show", "service", name, "-o", "json"]).json();
        assert_eq!(
            (&shown["id"], &shown["name"]),
            (&json!(id), &json!(name)),
            "{name:?}"
        );
        // In a list, a name with a comma stands in double quotes, and two quotes in it are one.
        let policy = format!("policy {index}");
        let quoted = format!("\"@{}\"", name.replace('"', "\"\""));
        let line = [
            "create",
            "service-policy",
            &policy,
            "--type",
            "Dial",
            "--service-roles",
            &format!("#one,{quoted}"),
            "--identity-roles",
            "#all",
        ];
        on_host(&server, &line).good();
        let made = on_host(&server, &["show", "service-policy", &policy, "-o", "json"]).json();
        assert_eq!(
            made["serviceRoles"],
            json!(["#one", format!("@{id}")]),
            "{name:?}"
        );
        on_host(&server, &["delete", "service-policy", &policy]).good();
        on_host(&server, &["delete", "service", name]).good();
        assert_eq!(
            server
                .admin
                .list("/services", &format!("id = \"{id}\""), "")
                .expect(200)
                .total(),
            0,
            "{name:?}"
        );
    }
    assert_eq!(
        server
            .admin
            .list("/services", "true", "")
            .expect(200)
            .total(),
        7
    );
}

#[test]
fn lists_take_commas_in_quotes() {
    let server = TestServer::start();
    let attributes = |flags: &[&str]| {
        let name = format!("service {}", flags.concat());
        let line = [&["create", "service", &name][..], flags].concat();
        on_host(&server, &line).good();
        on_host(&server, &["show", "service", &name, "-o", "json"]).json()["roleAttributes"].clone()
    };
    assert_eq!(attributes(&["--role-attributes", "a,b"]), json!(["a", "b"]));
    assert_eq!(
        attributes(&["--role-attributes", "\"a,b\",c"]),
        json!(["a,b", "c"])
    );
    assert_eq!(
        attributes(&["--role-attributes", "c,\"a,\"\"b,\"\"\""]),
        json!(["a,\"b,\"", "c"])
    );
    assert_eq!(
        attributes(&["--role-attributes", "\"x\"", "--role-attributes", "y"]),
        json!(["x", "y"])
    );
    // Quotes that do not end, or do not begin the item, belong to the text.
    assert_eq!(
        attributes(&["--role-attributes", "5\" disk,\"b"]),
        json!(["\"b", "5\" disk"])
    );
}
