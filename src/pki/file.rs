//! A text in a file that a person names: a certificate, its key, a passphrase, a password, a configuration.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// What is named by mistake may have no end.
const MOST: u64 = 1 << 20;

/// The text in a file.
///
/// # Errors
/// It cannot be read, is no UTF-8, or has more than 1 MiB.
pub fn text_of(path: &Path) -> io::Result<String> {
    let text = io::read_to_string(File::open(path)?.take(MOST + 1))?;
    if text.len() as u64 > MOST { Err(io::Error::other("has more than 1 MiB")) } else { Ok(text) }
}
