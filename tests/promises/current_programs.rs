//! What programs of OpenZiti 1.6 and 2.0 ask for that those of 1.1 do not.

use serde_json::{Value as Json, json};

use crate::harness::{Base, TestServer, encoded, fresh};

fn names(answer: &crate::harness::Answer) -> Vec<String> {
    let mut names: Vec<String> = answer
        .data()
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn checks_are_found_by_type() {
    let server = TestServer::start();
    server
        .admin
        .post(
            "/posture-checks",
            json!({ "name": "codes", "typeId": "MFA" }),
        )
        .expect(201);
    let systems = json!([{ "type": "Linux", "versions": [] }]);
    server
        .admin
        .post(
            "/posture-checks",
            json!({ "name": "system", "typeId": "OS", "operatingSystems": systems }),
        )
        .expect(201);
    let found = |filter: &str| {
        names(
            &server
                .admin
                .get(&format!("/posture-checks?filter={}", encoded(filter)))
                .expect(200),
        )
    };
    assert_eq!(found("typeId=\"MFA\""), ["codes"]);
    assert_eq!(found("typeId = \"OS\" and name contains \"s\""), ["system"]);
    assert_eq!(found("typeId != \"OS\""), ["codes"]);
    assert_eq!(
        found("typeId in [\"OS\", \"MFA\"] sort by typeId"),
        ["codes", "system"]
    );
    assert_eq!(found("typeId = \"MAC\""), [""; 0]);
    server
        .admin
        .get(&format!(
            "/posture-checks?filter={}",
            encoded("typeId = null")
        ))
        .expect(400);
}

#[test]
fn password_enrollments_answer_user_names() {
    let server = TestServer::start();
    for path in ["/enroll?method=updb&", "/enroll/updb?"] {
        let name = fresh("user");
        let id = server.identity(&name, json!({ "enrollment": { "updb": name } }));
        let token = server
            .admin
            .get(&format!("/identities/{id}"))
            .expect(200)
            .data()["enrollment"]["updb"]["token"]
            .clone();
        let path = format!("{path}token={}", token.as_str().unwrap());
        let answer = server
            .anonymous()
            .post(
                &path,
                json!({ "username": name, "password": "correct horse" }),
            )
            .expect(200);
        assert_eq!(answer.data(), &json!({ "username": name }), "{path}");
    }
}

#[test]
fn the_cluster_is_this_controller() {
    let server = TestServer::start();
    let fabric = server.admin.at(Base::Fabric);
    let answer = fabric.get("/cluster/list-members").expect(200);
    let version = server.anonymous().get("/version").expect(200).data()["version"].clone();
    let only = json!([{
        "id": "overkeep", "address": format!("tls:{}", server.bound()), "voter": true, "leader": true, "version": version, "connected": true,
        "readOnly": false, "preferredLeader": false
    }]);
    assert_eq!(answer.data(), &only);
    let (_, user) = server.user("somebody", json!({}));
    user.at(Base::Fabric)
        .get("/cluster/list-members")
        .expect(401);
}

#[test]
fn tunnelers_find_current_config_types() {
    let server = TestServer::start();
    let data = |name: &str| -> Json {
        match name {
            "proxy.v1" => {
                json!({ "port": 8080, "protocols": ["tcp", "udp"], "binding": "0.0.0.0" })
            }
            "interfaces.v1" => json!({ "interfaces": ["eth0"] }),
            "l2.host.v1" => json!({ "bridgeIfs": ["eth0"], "listenOptions": { "cost": 10 } }),
            "l2.intercept.v1" => {
                json!({ "ethTypes": ["0x0800"], "dialOptions": { "connectTimeoutSeconds": 5 } })
            }
            _ => json!({
                "protocol": "tcp", "forwardAddress": true, "allowedAddresses": ["10.0.0.0/8"], "port": 80,
                "forwardAddressTranslations": [{ "from": "10.0.0.0", "to": "192.168.0.0", "prefixLength": 8 }]
            }),
        }
    };
    for name in [
        "proxy.v1",
        "interfaces.v1",
        "l2.host.v1",
        "l2.intercept.v1",
        "host.v1",
    ] {
        let found = server
            .admin
            .get(&format!(
                "/config-types?filter={}",
                encoded(&format!("name=\"{name}\""))
            ))
            .expect(200);
        let kind = found.data()[0]["id"].clone();
        let config = |data: Json| {
            server.admin.post(
                "/configs",
                json!({ "name": fresh(name), "configTypeId": kind, "data": data }),
            )
        };
        config(data(name)).expect(201);
        let mut more = data(name);
        more["more"] = json!(1);
        config(more).expect(400);
    }
}
