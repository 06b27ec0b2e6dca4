//! The controller as a child process, so that its CPU time and memory are its own. The caller stops
//! it.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Starts a controller on a data file, with only these environment variables. Returns its address
/// once it listens.
pub fn start(data: &Path, variables: &[(&str, &str)]) -> (Child, SocketAddr) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_overkeep"))
        .args(["run", "--listen", "127.0.0.1:0", "--data"])
        .arg(data)
        .env_clear() // variables of the shell would configure the controller
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a controller");
    let mut output = String::new();
    let out = process.stdout.take().expect("its output");
    BufReader::new(out).read_line(&mut output).expect("a line");
    let at = output
        .split_whitespace()
        .find_map(|word| word.parse().ok())
        .expect("its address");
    (process, at)
}

/// The resident memory in bytes.
pub fn resident(process: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.expect("a number") * 1024
}
