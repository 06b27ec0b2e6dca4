//! The network of another controller as a file.

mod exports;
mod imports;

use std::{collections::HashMap, path::Path};

use serde_json::{Value as Json, json};

use tempfile::TempDir;

use crate::{
    command_line::{Ran, on_host, program},
    harness::{HttpsServer, TestServer, answer_json},
};

/// A controller that answers lists of records. `null` in a list is a record whose page cannot be
/// shown; `never` is a list that never can be shown.
fn upstream(home: &Path, lists: Json) -> String {
    let server = HttpsServer::bind(&home.join("ca"));
    let url = server.url.clone();
    server.run(move |target, _| {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query: HashMap<String, String> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let number = |name: &str, usual: usize| query.get(name).map_or(usual, |text| text.parse().unwrap());
        let name = path.rsplit('/').next().unwrap();
        if name == "authenticate" {
            return answer_json("200 OK", &json!({ "data": { "token": "x" } }).to_string());
        }
        let all = lists[name].as_array().cloned().unwrap_or_default();
        let (limit, offset) = (number("limit", 10), number("offset", 0));
        let page: Vec<&Json> = all.iter().skip(offset).take(limit).collect();
        if lists[name] == "never" || page.iter().any(|record| record.is_null()) {
            let cause = "could not convert *model.Enrollment with id [X] to API entity: router with id Y not found";
            let error = json!({ "code": "NOT_FOUND", "message": "The resource was not found", "cause": { "message": cause } });
            return answer_json("404 Not Found", &json!({ "error": error, "meta": {} }).to_string());
        }
        let meta = json!({ "pagination": { "limit": limit, "offset": offset, "totalCount": all.len() } });
        answer_json("200 OK", &json!({ "data": page, "meta": meta }).to_string())
    });
    url
}

/// Imports the lists of a controller.
fn imported_lists(lists: Json, flags: &[&str]) -> (TempDir, Ran) {
    let home = TempDir::new().unwrap();
    let url = upstream(home.path(), lists);
    std::fs::write(home.path().join("password"), "a long passphrase").unwrap();
    let line = [
        &[
            "import",
            "--from",
            &url,
            "--password-file",
            "password",
            "--ca",
            "ca",
        ],
        flags,
    ]
    .concat();
    let ran = Ran::of(
        line.join(" "),
        program(home.path()).args(&line).output().unwrap(),
    );
    (home, ran)
}

fn identity(id: &str) -> Json {
    json!({ "id": id, "name": format!("name of {id}"), "type": "Default", "isAdmin": false })
}
