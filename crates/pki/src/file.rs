//! Reading a text file named by the operator: a certificate, a key, a passphrase, a password, a
//! configuration. Links are followed, because secrets of containers are links.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use zeroize::Zeroizing;

/// The greatest size of a file, in bytes; a file named by mistake may be endless.
const LIMIT: u64 = 1 << 20;
/// The mode bits that let group and others write (`WRITABLE`) or read (`READABLE`).
const WRITABLE: u32 = 0o022;
const READABLE: u32 = 0o044;

/// The text in a file.
///
/// # Errors
/// It cannot be read, is not UTF-8, or has more than 1 MiB.
pub fn text_of(path: &Path) -> io::Result<String> {
    read(&File::open(path)?)
}

/// The secret in a file, wiped from memory when it is dropped. Logs a warning if group or others
/// can read the file.
///
/// # Errors
/// As [`text_of`]; also if group or others can write the file, because they could replace the
/// secret.
pub fn secret_of(path: &Path) -> io::Result<Zeroizing<String>> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    // A pipe, such as `<(...)`, has no meaningful mode.
    let rights = if found.is_file() {
        found.permissions().mode()
    } else {
        0
    };
    if rights & WRITABLE != 0 {
        return Err(io::Error::other(format!(
            "its group or others can write it (mode {:04o}): run chmod go-w",
            rights & 0o7777
        )));
    }
    if rights & READABLE != 0 {
        warn(path, rights & 0o7777);
    }
    read(&file).map(Zeroizing::new)
}

fn read(file: &File) -> io::Result<String> {
    let text = io::read_to_string(file.take(LIMIT + 1))?;
    if text.len() as u64 > LIMIT {
        Err(io::Error::other("has more than 1 MiB"))
    } else {
        Ok(text)
    }
}

/// Logs a warning; without a logger, as in commands, prints it to stderr.
fn warn(path: &Path, mode: u32) {
    let path = path.display();
    if tracing::dispatcher::has_been_set() {
        tracing::warn!(%path, mode = format!("{mode:04o}"), "group or others can read a file with a secret: run chmod go-r");
    } else {
        let line = format!(
            "overkeep: warning: group or others can read {path} (mode {mode:04o}): run chmod go-r"
        );
        drop(writeln!(io::stderr(), "{line}"));
    }
}
