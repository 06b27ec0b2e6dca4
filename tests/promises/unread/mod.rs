//! Clients that do not read their answers: the memory held for them is bounded, they are cut off,
//! and they delay nobody else.

mod connections;
mod long_lists;

use std::{
    fs,
    net::TcpStream,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use model::{clock::Clock, config::Span};

use rustix::process::{Pid, Signal, kill_process};

use serde_json::json;

use tempfile::TempDir;

use crate::harness::{Answer, Caller, Program, TestServer, Wire, asking_for, frame, fresh};

/// Resident memory of a process, now and at its peak, in MiB.
fn memory(program: &Program) -> (usize, usize) {
    let status = fs::read_to_string(format!("/proc/{}/status", program.process.id())).unwrap();
    let of = |name: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        line.trim()
            .trim_end_matches(" kB")
            .parse::<usize>()
            .unwrap()
            / 1024
    };
    (of("VmRSS:"), of("VmHWM:"))
}

/// A program with these settings.
fn program(directory: &Path, settings: &[(&str, &str)]) -> Program {
    let mut command = crate::harness::command(directory);
    command.envs(settings.iter().copied());
    Program::of(command.spawn().unwrap()).expect("it says where it listens")
}

/// Creates a config with this many bytes of data, of the type `fat`. Returns its id.
fn large_config(admin: &Caller, bytes: usize) -> String {
    let known = admin
        .get("/config-types?filter=name=%22fat%22")
        .expect(200)
        .json["data"][0]["id"]
        .as_str()
        .map(str::to_owned);
    let of = known.unwrap_or_else(|| {
        admin
            .post("/config-types", json!({ "name": "fat", "schema": {} }))
            .expect(201)
            .id()
    });
    let body =
        json!({ "name": fresh("fat"), "configTypeId": of, "data": { "fat": "x".repeat(bytes) } });
    admin.post("/configs", body).expect(201).id()
}
