//! Finds leaked secrets: the secrets that pass through the callers of all tests are searched for in
//! everything that this process logs and in every error that is answered.
//!
//! Text is split into words, and the longest word of a secret stands for it. Secrets and logged
//! words are both kept as words, so that a leak is found whichever comes first. A leak fails the
//! test that sends the next request, even if another test caused it.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Write},
    sync::{LazyLock, Mutex, Once},
};

use serde_json::Value as Json;
use tracing_subscriber::{EnvFilter, fmt};

use super::answer::Answer;

/// Members of bodies that hold secrets.
const MEMBERS: [&str; 11] = [
    "token",
    "jwt",
    "enrollmentToken",
    "enrollmentJwt",
    "password",
    "currentPassword",
    "code",
    "recoveryCodes",
    "provisioningUrl",
    "identitySecret",
    // What endpoints report is not for logs either.
    "domain",
];
const HEADERS: [&str; 3] = ["zt-session", "authorization", "mfa-validation-code"];
/// Text that only hashes and keys contain.
const MARKERS: [&str; 3] = ["$scrypt$", "PRIVATE KEY", "$argon2"];
/// Minimum lengths: codes have exactly the first length, in digits or capitals; other words count
/// as secrets from the second length on.
const SHORTEST: [usize; 2] = [6, 12];

/// The secrets, the logged words, and the leaks found.
#[derive(Default)]
pub struct SecretScan {
    /// Word of the secret to its description.
    secrets: HashMap<String, String>,
    logged: HashSet<String>,
    leaks: Vec<String>,
}

impl SecretScan {
    /// Registers a secret.
    pub fn add_secret(&mut self, what: &str, secret: &str) {
        let secret = secret.split("secret=").last().unwrap_or_default();
        let Some(word) = words(secret)
            .max_by_key(|word| word.len())
            .filter(|word| is_specific(word))
        else {
            return;
        };
        if self.logged.contains(word) {
            self.leaks.push(format!("{what} was logged: {word}"));
        }
        self.secrets.insert(word.to_owned(), what.to_owned());
    }

    /// Registers a logged line.
    pub fn add_line(&mut self, line: &str) {
        self.leaks.extend(
            self.found_in(line)
                .map(|what| format!("{what} was logged: {line}")),
        );
        // A count of bytes may look like a code.
        let words_of_line = line
            .split_whitespace()
            .filter(|part| !part.starts_with("bytes="));
        self.logged.extend(
            words_of_line
                .flat_map(words)
                .filter(|word| is_specific(word))
                .map(str::to_owned),
        );
    }

    /// Which secret a text contains.
    pub fn found_in(&self, text: &str) -> Option<&str> {
        let marker = MARKERS.into_iter().find(|marker| text.contains(marker));
        marker.or_else(|| {
            words(text)
                .find_map(|word| self.secrets.get(word))
                .map(String::as_str)
        })
    }

    /// The leaks found so far.
    pub fn leaks(&self) -> &[String] {
        &self.leaks
    }
}

/// Whether a word is too specific to be there by chance.
fn is_specific(word: &str) -> bool {
    let [code, other] = SHORTEST;
    let is_code = word.len() == code
        && word
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    let varied = word.bytes().any(|byte| !word.starts_with(char::from(byte)));
    // The label of a PEM block is in every block, and a random body may contain a time that looks
    // like a code.
    varied && !word.contains("-----") && !is_time(word) && (is_code || word.len() >= other)
}

/// Whether a word begins like a time (RFC 3339).
fn is_time(word: &str) -> bool {
    word.len() > 10
        && word.bytes().zip(b"dddd-dd-ddT").all(|(byte, form)| {
            if *form == b'd' {
                byte.is_ascii_digit()
            } else {
                byte == *form
            }
        })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')
        .filter(|word| !word.is_empty())
}

static SCAN: LazyLock<Mutex<SecretScan>> = LazyLock::new(Mutex::default);

/// Scans everything that this process logs from now on; Overkeep's own modules at every level.
pub fn scan_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let filter = EnvFilter::new("debug,overkeep=trace");
        let lines = fmt::Subscriber::builder()
            .with_env_filter(filter)
            .without_time()
            .with_ansi(false)
            .with_writer(|| LogScanner);
        tracing::subscriber::set_global_default(lines.finish()).unwrap();
    });
}

struct LogScanner;

impl Write for LogScanner {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        SCAN.lock()
            .unwrap()
            .add_line(&String::from_utf8_lossy(line));
        Ok(line.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Registers the secrets in a request and its answer, and panics if an answer or the log contains a
/// secret.
#[track_caller]
pub fn check_answer(path: &str, headers: &[(String, String)], body: &[u8], answer: &Answer) {
    let mut scan = SCAN.lock().unwrap();
    for (name, value) in headers
        .iter()
        .filter(|(name, _)| HEADERS.contains(&name.as_str()))
    {
        scan.add_secret(name, value);
    }
    // In an enrollment by certificate alone, the token is the id of an authority.
    let token = path
        .split(['?', '&'])
        .find_map(|part| part.strip_prefix("token="));
    if let Some(token) = token.filter(|_| !path.contains("method=ca")) {
        scan.add_secret("the token of an enrollment", token);
    }
    collect(&mut scan, &serde_json::from_slice(body).unwrap_or_default());
    collect(&mut scan, answer.data());
    assert!(scan.leaks.is_empty(), "{:#?}", scan.leaks);
    let leaked = if answer.status >= 400 {
        scan.found_in(&answer.text)
    } else {
        MARKERS
            .into_iter()
            .find(|marker| answer.text.contains(marker))
    };
    let leaked = leaked.map(str::to_owned);
    drop(scan);
    assert_eq!(leaked, None, "{}: {}", answer.request, answer.text);
}

/// Panics if this process has logged one of these secrets, or logs it later.
#[track_caller]
pub fn check_log<'s>(secrets: impl Iterator<Item = &'s String>) {
    let mut scan = SCAN.lock().unwrap();
    secrets.for_each(|secret| scan.add_secret("a secret of a test", secret));
    assert!(scan.leaks.is_empty(), "{:#?}", scan.leaks);
}

fn collect(scan: &mut SecretScan, json: &Json) {
    match json {
        Json::Object(members) => {
            for (name, value) in members {
                match value {
                    Json::String(secret) if MEMBERS.contains(&name.as_str()) => {
                        scan.add_secret(name, secret)
                    }
                    Json::Array(secrets) if name == "recoveryCodes" => {
                        secrets
                            .iter()
                            .filter_map(Json::as_str)
                            .for_each(|secret| scan.add_secret(name, secret));
                    }
                    other => collect(scan, other),
                }
            }
        }
        Json::Array(entries) => entries.iter().for_each(|entry| collect(scan, entry)),
        _ => {}
    }
}
