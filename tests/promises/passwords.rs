//! A password change ends all other sessions of the old password, and the history records who ended
//! them.

use serde_json::{Value as Json, json};

use crate::{
    harness::{Base, Caller, PASSWORD, TestServer, fresh, shared},
    second_factors::authenticate,
};

const OTHER: &str = "another-password-of-a-test";

/// The id of a caller's password authenticator.
fn password_of(who: &Caller) -> String {
    who.get("/current-identity/authenticators")
        .expect(200)
        .data()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn session_of(who: &Caller) -> String {
    who.get("/current-api-session").expect(200).id()
}

#[track_caller]
fn assert_logged_out(who: &Caller) {
    who.get("/current-api-session")
        .refused(401, "UNAUTHORIZED", "");
}

/// Who ended a session, from the rows of the history.
fn ended_by(server: &TestServer, session: &str) -> Vec<Json> {
    let rows = server
        .admin
        .at(Base::Overkeep)
        .list(
            "/history",
            &format!(r#"id = "{session}" and action = "logout""#),
            "",
        )
        .expect(200);
    rows.data()
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["by"]["identity"].clone())
        .collect()
}

#[test]
fn own_password_change_keeps_own_session() {
    let (server, name) = (shared(), fresh("renewer"));
    let (id, own) = server.user(&name, json!({}));
    let others = [server.log_in_again(&name), server.log_in_again(&name)];
    let sessions = others.each_ref().map(session_of);
    let path = format!("/current-identity/authenticators/{}", password_of(&own));

    let renamed = fresh("renamed");
    own.patch(
        &path,
        json!({ "username": renamed, "currentPassword": PASSWORD }),
    )
    .expect(200);
    own.patch(
        &path,
        json!({ "password": OTHER, "currentPassword": "not the password" }),
    )
    .expect(401);
    others.iter().for_each(|other| drop(session_of(other)));

    own.patch(
        &path,
        json!({ "password": OTHER, "currentPassword": PASSWORD }),
    )
    .expect(200);
    session_of(&own);
    others.iter().for_each(assert_logged_out);
    for session in sessions {
        assert_eq!(ended_by(server, &session), [json!(id)]);
    }
    let newest = server.anonymous().log_in(&renamed, OTHER);
    newest
        .put(
            &path,
            json!({ "username": renamed, "password": PASSWORD, "currentPassword": OTHER }),
        )
        .expect(200);
    assert_logged_out(&own);
    session_of(&newest);
}

#[test]
fn administrator_password_change_ends_sessions() {
    let (server, name) = (shared(), fresh("reset"));
    let admin = server.admin.get("/current-identity").expect(200).id();
    let (_, first) = server.user(&name, json!({}));
    let path = format!("/authenticators/{}", password_of(&first));
    server
        .admin
        .patch(&path, json!({ "tags": { "shift": "night" } }))
        .expect(200);
    let session = session_of(&first);
    server
        .admin
        .patch(&path, json!({ "password": OTHER }))
        .expect(200);
    assert_logged_out(&first);
    assert_eq!(ended_by(server, &session), [json!(admin)]);
    let second = server.anonymous().log_in(&name, OTHER);
    server
        .admin
        .put(&path, json!({ "username": name, "password": PASSWORD }))
        .expect(200);
    assert_logged_out(&second);
    authenticate(&name, OTHER).refused(401, "INVALID_AUTH", "");
}

#[test]
fn other_credentials_keep_their_sessions() {
    let server = shared();
    let (id, client) = server.enrolled("two-ways");
    let by_certificate = client.log_in_by_certificate();
    let name = fresh("two-ways");
    server.give_password(&id, &name);
    let by_password = server.log_in_again(&name);
    let own = by_password
        .get("/current-identity/authenticators")
        .expect(200);
    let password = own
        .data()
        .as_array()
        .unwrap()
        .iter()
        .find(|each| each["method"] == "updb")
        .unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let change = json!({ "password": OTHER, "currentPassword": PASSWORD });
    by_certificate
        .patch(
            &format!("/current-identity/authenticators/{password}"),
            change,
        )
        .expect(200);
    assert_logged_out(&by_password);
    session_of(&by_certificate);
}

#[test]
fn administrator_keeps_own_session() {
    let (server, name) = (shared(), fresh("chief"));
    let (_, own) = server.user(&name, json!({ "isAdmin": true }));
    let (own, other) = (own.at(Base::Management), server.log_in_again(&name));
    own.patch(
        &format!("/authenticators/{}", password_of(&own)),
        json!({ "password": OTHER }),
    )
    .expect(200);
    assert_logged_out(&other);
    own.get("/identities?limit=1").expect(200);
}

#[test]
fn caller_survives_mass_session_end() {
    // More sessions than are deleted one by one.
    let (server, name) = (TestServer::start(), "crowd");
    let (who, own) = server.user(name, json!({}));
    let service = server.service("crowd", json!({}));
    server.service_policy("Dial", &[&format!("@{who}")], &[&format!("@{service}")]);
    server.router_between(&who, &service);
    let session = own
        .post("/sessions", json!({ "serviceId": service, "type": "Dial" }))
        .expect(201)
        .id();
    let others: Vec<Caller> = (0..210).map(|_| server.log_in_again(name)).collect();
    let change = json!({ "password": OTHER, "currentPassword": PASSWORD });
    own.patch(
        &format!("/current-identity/authenticators/{}", password_of(&own)),
        change,
    )
    .expect(200);
    for _ in 0..2 {
        others.iter().for_each(assert_logged_out);
        session_of(&own);
        own.get(&format!("/sessions/{session}")).expect(200);
        server.run_due_jobs();
    }
}
