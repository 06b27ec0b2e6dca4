//! Asking for the code of a second factor.

use std::{
    fs::OpenOptions,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    sync::Arc,
};

use client::AskCode;

/// The most bytes of a code, with what is around it.
const MAX_LENGTH: usize = 256;

/// Asks a command, if one is given, or else the person at the terminal. Standard input and output
/// are left alone.
pub(super) fn ask_code(command: Option<String>) -> AskCode {
    Arc::new(move || match &command {
        Some(command) => of_command(command),
        None => of_terminal(),
    })
}

fn of_command(command: &str) -> Result<String, String> {
    let failed = |reason: String| format!("the command of --code-command: {reason}");
    let done = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !done.status.success() {
        return Err(failed(done.status.to_string()));
    }
    let text = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    if text.is_empty() || text.len() > MAX_LENGTH {
        return Err(failed("it wrote no code".to_owned()));
    }
    Ok(text)
}

fn of_terminal() -> Result<String, String> {
    let none = |_| "there is no terminal to ask at: give --code-command".to_owned();
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
    let mut terminal = terminal.map_err(none)?;
    write!(terminal, "Code of the second factor: ").map_err(none)?;
    let mut line = String::new();
    BufReader::new(terminal)
        .read_line(&mut line)
        .map_err(none)?;
    match line.trim() {
        "" => Err("no code was given".to_owned()),
        code => Ok(code.to_owned()),
    }
}
