//! The history: it has every change with its author, no secret, and reveals tampering.

mod chain;
mod reading;
mod rows;

use std::{path::Path, time::Duration};

use lz4_flex::block::decompress_with_dict;

use model::{
    clock::{Clock, Timestamp},
    entity::{Action, Author, HistoryClass, HistoryRow, Id, TypedLookup, history::Who},
    error::Error,
};
use overkeep::testing::{
    admin_socket::{Command, Outcome, socket},
    cli::{self, CommandError},
};
use store::{HistoryAnchor, Options, Progress, Retention, Store};

use redb::{Database, ReadableTable, TableDefinition};

use serde_json::{Value as Json, json};

use query::{Query, Window};
use tempfile::TempDir;

use crate::{
    harness::{Caller, PASSWORD, TestServer, stores},
    integrity,
    store::{KINDS, Task, task},
};

/// All rows, oldest first.
fn rows(store: &Store) -> Vec<HistoryRow> {
    store.read(|tx| tx.history_after(0, usize::MAX)).unwrap()
}

/// The texts of the history of a closed file, decoded by the documented format: compressed, after
/// hash, total and link.
fn written(file: &Path) -> Vec<String> {
    let unpacked = |row: &Vec<u8>| {
        assert_eq!(row[32 + 8], 2);
        let (head, block) = row[32 + 8 + 1 + 8 + 16..].split_at(5);
        assert_eq!(head[0], 1);
        let length = u32::from_le_bytes(head[1..].try_into().unwrap());
        let text = decompress_with_dict(
            block,
            length as usize,
            include_bytes!("../../../crates/store/src/history/words.txt"),
        )
        .unwrap();
        String::from_utf8(text).unwrap()
    };
    let tables = integrity::rows(file);
    tables["history"]
        .values()
        .chain(tables["history.sessions"].values())
        .map(unpacked)
        .collect()
}

/// A closed file with five rows.
fn five() -> (TempDir, Vec<HistoryRow>) {
    let directory = TempDir::new().unwrap();
    let store = open(&directory);
    ["a", "b", "c", "d", "e"]
        .into_iter()
        .for_each(|id| store.write_blocking(move |tx| tx.insert(task(id))).unwrap());
    let rows = rows(&store);
    store.close();
    (directory, rows)
}

fn open(directory: &TempDir) -> Store {
    stores::of(KINDS).start(&directory.path().join("data"))
}

/// The secrets that a scenario produced.
pub struct Secrets(pub Vec<String>);

impl Secrets {
    /// Notes a text somewhere in an answer.
    pub fn note(&mut self, from: &Json, pointer: &str) -> String {
        let secret = from
            .pointer(pointer)
            .and_then(Json::as_str)
            .unwrap_or_else(|| panic!("no {pointer} in {from}"))
            .to_owned();
        self.0.push(secret.clone());
        secret
    }
}

/// Creates one of everything that has a secret.
pub fn story(server: &TestServer, secrets: &mut Secrets) {
    let admin = &server.admin;
    let token = |caller: &Caller| caller.token.clone().unwrap();
    let bob = server.identity("bob", json!({ "enrollment": { "ott": true } }));
    let enrollment = admin.get("/enrollments").expect(200).data()[0].clone();
    secrets.note(&enrollment, "/jwt");
    secrets.note(&enrollment, "/token");
    admin
        .post(
            &format!(
                "/enrollments/{}/refresh",
                enrollment["id"].as_str().unwrap()
            ),
            json!({ "expiresAt": "2099-01-01T00:00:00Z" }),
        )
        .expect(200);
    let refreshed = admin.get("/enrollments").expect(200).data()[0].clone();
    secrets.note(&refreshed, "/token");
    secrets.note(&refreshed, "/jwt");
    server.give_password(&bob, "bobby");
    let session = server.anonymous().log_in("bobby", PASSWORD);
    session
        .post("/current-identity/mfa", Json::Null)
        .expect(201);
    let factor = session
        .get("/current-identity/mfa")
        .expect(200)
        .data()
        .clone();
    let url = secrets.note(&factor, "/provisioningUrl");
    secrets.0.push(
        url.split("secret=")
            .nth(1)
            .unwrap()
            .split('&')
            .next()
            .unwrap()
            .into(),
    );
    (0..20).for_each(|code| drop(secrets.note(&factor, &format!("/recoveryCodes/{code}"))));
    let changed =
        json!({ "username": "bobby", "password": "another password", "currentPassword": PASSWORD });
    let own = session
        .get("/current-identity/authenticators")
        .expect(200)
        .data()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    session
        .put(&format!("/current-identity/authenticators/{own}"), changed)
        .expect(200);
    server
        .anonymous()
        .post(
            "/authenticate?method=password",
            json!({ "username": "bobby", "password": "a wrong one" }),
        )
        .expect(401);
    let (service, router) = (
        server.service("db", json!({})),
        admin
            .post("/edge-routers", json!({ "name": "r" }))
            .expect(201)
            .id(),
    );
    let terminator = json!({ "service": service, "router": router, "binding": "transport", "address": "tcp:db:1",
        "identity": "one", "identitySecret": "c2VjcmV0IG9mIGEgaG9zdA==" });
    admin.post("/terminators", terminator).expect(201);
    secrets.0.extend(
        [
            PASSWORD,
            "another password",
            "a wrong one",
            "c2VjcmV0IG9mIGEgaG9zdA==",
            "$scrypt",
        ]
        .map(str::to_owned),
    );
    secrets
        .0
        .extend([server.password.clone(), token(admin), token(&session)]);
}
