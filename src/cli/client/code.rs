//! Asking for the code of a second factor.

use std::{
    fs::OpenOptions,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use client::AskCode;
use parking_lot::Mutex;

/// The most bytes of a code, with what is around it.
const MAX_LENGTH: usize = 256;
/// How long a command may take.
const MOST: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
/// Held while a person is asked, so that two questions do not stand at one terminal.
static ASKING: Mutex<()> = Mutex::new(());

/// Asks a command, if one is given, or else the person at the terminal, for the identity in a file.
/// Standard input and output are left alone.
pub(super) fn ask_code(path: &Path, command: Option<String>) -> AskCode {
    let path = path.to_owned();
    Arc::new(move || match &command {
        Some(command) => of_command(command),
        None => of_terminal(&path),
    })
}

fn of_command(command: &str) -> Result<String, String> {
    let failed = |reason: String| format!("the command of --code-command: {reason}");
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let ended = wait(&mut child).map_err(failed);
    if ended.is_err() {
        drop(child.kill());
        drop(child.wait());
    }
    ended?;
    let mut text = String::new();
    if let Some(output) = child.stdout.take() {
        let most = u64::try_from(MAX_LENGTH).unwrap_or(u64::MAX) + 1;
        let read = output.take(most).read_to_string(&mut text);
        read.map_err(|error| failed(error.to_string()))?;
    }
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_LENGTH {
        return Err(failed("it wrote no code".to_owned()));
    }
    Ok(text.to_owned())
}

fn wait(child: &mut Child) -> Result<(), String> {
    let end = Instant::now() + MOST;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(status.to_string()),
            Ok(None) if Instant::now() < end => sleep(PAUSE),
            Ok(None) => return Err(format!("it did not end within {} seconds", MOST.as_secs())),
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn of_terminal(path: &Path) -> Result<String, String> {
    let _one = ASKING.lock();
    let none = |_| "there is no terminal to ask at: give --code-command".to_owned();
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
    let mut terminal = terminal.map_err(none)?;
    write!(
        terminal,
        "Code of the second factor of {}: ",
        path.display()
    )
    .map_err(none)?;
    let mut line = String::new();
    BufReader::new(terminal)
        .read_line(&mut line)
        .map_err(none)?;
    match line.trim() {
        "" => Err("no code was given".to_owned()),
        code => Ok(code.to_owned()),
    }
}
