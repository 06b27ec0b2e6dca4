//! Text of others: names that show something else than they hold are accepted where clients expect
//! it and named, and nothing that is printed lets them act.

mod names;
mod servers;

use std::{
    io::{Read, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    process::Command,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use model::config::{Format, Log};
use overkeep::testing::logging;

use rcgen::{CertificateParams, KeyPair};

use rustls::{
    ServerConfig, ServerConnection, StreamOwned, crypto::ring::default_provider,
    pki_types::PrivateKeyDer,
};

use serde_json::{Value as Json, json};

use tempfile::TempDir;

use crate::{
    command_line::{Ran, on_host, program},
    harness::{Authority, Base, Key, TestServer, fresh, shared},
    second_factors::{claims, endpoint, signer, token_login_with},
};

/// One character of each sort.
const HIDDEN: [char; 18] = [
    '\u{1}', '\t', '\n', '\r', '\u{1b}', '\u{7f}', '\u{85}', '\u{9b}', '\u{61c}', '\u{200b}',
    '\u{200d}', '\u{200e}', '\u{202e}', '\u{2028}', '\u{2060}', '\u{2066}', '\u{2069}', '\u{feff}',
];

fn is_hidden(letter: char) -> bool {
    HIDDEN.contains(&letter)
}

/// Asserts that lines hold no hidden character.
#[track_caller]
fn assert_plain(text: &str) {
    assert!(
        !text.lines().any(|line| line.contains(is_hidden)),
        "{text:?}"
    );
}

/// A home directory with a password file.
fn home() -> TempDir {
    let home = TempDir::new().unwrap();
    let path = home.path().join("password");
    std::fs::write(&path, "password").unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    home
}
