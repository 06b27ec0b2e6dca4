//! A text in a file that a person names: a certificate, its key, a passphrase, a password, a configuration. Links are followed: secrets of
//! containers are links.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use zeroize::Zeroizing;

/// What is named by mistake may have no end.
const MOST: u64 = 1 << 20;
/// Group and others may write, or read.
const WRITABLE: u32 = 0o022;
const READABLE: u32 = 0o044;

/// The text in a file.
///
/// # Errors
/// It cannot be read, is no UTF-8, or has more than 1 MiB.
pub fn text_of(path: &Path) -> io::Result<String> {
    read(&File::open(path)?)
}

/// The secret in a file, which is wiped from memory when it is dropped. If others than its owner can read the file, that is a warning.
///
/// # Errors
/// As [`text_of`]; others than its owner can write the file, so that the secret may be theirs.
pub fn secret_of(path: &Path) -> io::Result<Zeroizing<String>> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    // A pipe, such as <(...), has no rights that say anything.
    let rights = if found.is_file() { found.permissions().mode() } else { 0 };
    if rights & WRITABLE != 0 {
        return Err(io::Error::other(format!("others than its owner can write it (mode {:04o}): chmod go-w", rights & 0o7777)));
    }
    if rights & READABLE != 0 {
        warn(path, rights & 0o7777);
    }
    read(&file).map(Zeroizing::new)
}

fn read(file: &File) -> io::Result<String> {
    let text = io::read_to_string(file.take(MOST + 1))?;
    if text.len() as u64 > MOST { Err(io::Error::other("has more than 1 MiB")) } else { Ok(text) }
}

/// Says it in the log, or where there is none, as in commands, on stderr.
fn warn(path: &Path, mode: u32) {
    let path = path.display();
    if tracing::dispatcher::has_been_set() {
        tracing::warn!(%path, mode = format!("{mode:04o}"), "others than its owner can read a file with a secret: chmod go-r");
    } else {
        let line = format!("overkeep: warning: others than its owner can read {path} (mode {mode:04o}): chmod go-r");
        drop(writeln!(io::stderr(), "{line}"));
    }
}
