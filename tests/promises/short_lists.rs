//! Lists for which little is read are answered on the thread of their connection. All others are
//! handed to another thread, so that they do not delay the connection's other requests.

use std::{collections::BTreeMap, fs};

use serde_json::json;
use tempfile::TempDir;
use ureq::http::Request;

use crate::harness::{Base, Caller, PASSWORD, Program, trusting};

/// How often each list is asked for.
const TIMES: u64 = 40;

/// How often each thread of a process has waited, by its number.
fn waits(program: &Program) -> BTreeMap<String, u64> {
    let tasks = fs::read_dir(format!("/proc/{}/task", program.process.id())).unwrap();
    let waited = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let count = status.lines().find_map(|line| {
            line.strip_prefix("voluntary_ctxt_switches:")?
                .trim()
                .parse()
                .ok()
        })?;
        Some((task.file_name().into_string().ok()?, count))
    };
    tasks.flatten().filter_map(waited).collect()
}

/// How often other threads than that of the connection worked for a list, each time that it was
/// asked for. Each wait of a thread ends with work.
fn hand_overs(program: &Program, caller: &Caller, path: &str, entries: usize) -> u64 {
    let ask = || {
        let request = Request::get(format!("{}{}{path}", caller.url, caller.base.path()));
        let request = request
            .header("zt-session", caller.token.as_deref().unwrap())
            .body(())
            .unwrap();
        caller
            .agent
            .run(request)
            .unwrap()
            .body_mut()
            .with_config()
            .limit(1 << 24)
            .read_to_vec()
            .unwrap()
    };
    // The JSON of records is cached by the first requests.
    let list = (0..5).fold(Vec::new(), |_, _| ask());
    let list: serde_json::Value = serde_json::from_slice(&list).unwrap();
    assert_eq!(list["data"].as_array().unwrap().len(), entries, "{path}");
    let before = waits(program);
    (0..TIMES).for_each(|_| drop(ask()));
    let mut more: Vec<u64> = waits(program)
        .into_iter()
        .map(|(thread, count)| count - before.get(&thread).copied().unwrap_or_default())
        .collect();
    more.sort_unstable();
    // The thread of the connection waits most often. On a busy machine the next request may be
    // there already, so that a wait is missing.
    more.pop();
    (more.iter().sum::<u64>() + TIMES / 2) / TIMES
}

#[test]
fn short_lists_stay_on_their_thread() {
    let directory = TempDir::new().unwrap();
    let program = Program::start(directory.path());
    let admin = program.admin();
    let id = admin
        .post(
            "/identities",
            json!({ "name": "reader", "type": "Device", "isAdmin": false }),
        )
        .expect(201)
        .id();
    admin.post("/authenticators", json!({ "method": "updb", "identityId": id, "username": "reader", "password": PASSWORD })).expect(201);
    let policy = json!({ "name": "all", "type": "Dial", "semantic": "AnyOf", "identityRoles": ["#all"], "serviceRoles": ["#all"] });
    admin.post("/service-policies", policy).expect(201);
    for n in 0..500 {
        let service = json!({ "name": format!("service-{n:03}"), "encryptionRequired": true, "tags": { "text": "x".repeat(200) } });
        admin.post("/services", service).expect(201);
    }
    let reader = trusting(&program.url)
        .at(Base::Client)
        .log_in("reader", PASSWORD);
    assert_eq!(hand_overs(&program, &reader, "/services", 10), 0);
    // This list is longer than those that are sent as a whole.
    assert_eq!(hand_overs(&program, &reader, "/services?limit=500", 500), 0);
    assert_eq!(
        hand_overs(&program, &admin, "/services?limit=100&sort=name", 100),
        0
    );
    assert_eq!(
        hand_overs(
            &program,
            &admin,
            "/services?filter=name%20contains%20%22service%22",
            10
        ),
        1
    );
    admin
        .post(
            "/posture-checks",
            json!({ "name": "any", "typeId": "DOMAIN", "domains": ["corp"] }),
        )
        .expect(201);
    assert_eq!(
        hand_overs(&program, &reader, "/services", 10),
        1,
        "the policies of each service are judged"
    );
}
