//! The program in a process of its own.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use super::{Caller, trusting};

const PASSWORD: &str = "given by a test";

/// `overkeep run` on the file `data` of a directory. Killed when it is dropped.
pub struct Program {
    pub process: Child,
    /// `https://host:port`
    pub url: String,
}

impl Program {
    /// Starts it and waits until it prints its address.
    pub fn start(directory: &Path) -> Self {
        Self::of(command(directory).spawn().unwrap())
            .expect("the program ended before it printed its address")
    }

    /// The same, with files that cannot grow beyond this many bytes until [`Program::unlimited`].
    pub fn limited(directory: &Path, bytes: u64) -> Self {
        let plain = command(directory);
        let mut command = Command::new("prlimit");
        command
            .args([&format!("--fsize={bytes}:"), "--"])
            .arg(plain.get_program())
            .args(plain.get_args())
            .current_dir(directory);
        remove_test_variables(&mut command);
        Self::of(command.spawn().unwrap()).expect("the program ended before it printed its address")
    }

    /// Waits until a process prints its address. Returns the process if it ends before.
    pub fn of(mut process: Child) -> Result<Self, Child> {
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = lines.next().and_then(Result::ok).unwrap_or_default();
        match first
            .split_whitespace()
            .find(|word| word.starts_with("https://"))
        {
            Some(url) => Ok(Self {
                process,
                url: url.into(),
            }),
            None => Err(process),
        }
    }

    pub fn unlimited(&self) {
        let status = Command::new("prlimit")
            .args([
                "--pid",
                &self.process.id().to_string(),
                "--fsize=unlimited:",
            ])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }

    /// Its administrator, with a session.
    pub fn admin(&self) -> Caller {
        trusting(&self.url).log_in("admin", PASSWORD)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The command that runs it.
pub fn command(directory: &Path) -> Command {
    fs::write(directory.join("password"), PASSWORD).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_overkeep"));
    command.args([
        "run",
        "--data",
        "data",
        "--listen",
        "127.0.0.1:0",
        "--admin-password-file",
        "password",
    ]);
    remove_test_variables(command.current_dir(directory));
    command
}

/// Removes variables of the test run: the program would warn about keys that it does not know.
fn remove_test_variables(command: &mut Command) {
    std::env::vars()
        .filter(|(name, _)| name.starts_with("OVERKEEP_"))
        .for_each(|(name, _)| {
            command.env_remove(name);
        });
    command
        .env("OVERKEEP_PASSWORDS_COST", "10")
        .env("OVERKEEP_ROUTER_ENABLED", "false")
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
}
