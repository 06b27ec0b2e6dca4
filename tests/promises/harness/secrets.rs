//! What nobody may read: the secrets that pass through the callers of all tests, held against everything that this process logs and
//! against every error that is answered.
//!
//! Text is taken apart into words, and a secret is known by its longest one; so neither side has to be kept, and whichever comes
//! first, the other finds it. A leak fails the test that sends the next request, whosever it is.

use std::{
    collections::{HashMap, HashSet},
    io::{self, Write},
    sync::{LazyLock, Mutex, Once},
};

use serde_json::Value as Json;
use tracing_subscriber::{EnvFilter, fmt};

use super::answer::Answer;

/// Members of bodies that hold secrets; of the rest of the text nothing is one.
const MEMBERS: [&str; 10] = [
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
];
const HEADERS: [&str; 3] = ["zt-session", "authorization", "mfa-validation-code"];
/// What hashes and keys look like, wherever they stand.
const MARKS: [&str; 3] = ["$scrypt$", "PRIVATE KEY", "$argon2"];
/// Codes have this many characters, digits or capitals; a word that is no code is a secret from the second length on.
const SHORTEST: [usize; 2] = [6, 12];

/// Secrets, what was logged, and which of these are the same.
#[derive(Default)]
pub struct SecretScan {
    /// By the word that stands for it: what it is.
    secrets: HashMap<String, String>,
    logged: HashSet<String>,
    leaks: Vec<String>,
}

impl SecretScan {
    /// Takes note of a secret.
    pub fn learn(&mut self, what: &str, secret: &str) {
        let secret = secret.split("secret=").last().unwrap_or_default();
        let Some(word) = words(secret).max_by_key(|word| word.len()).filter(|word| is_telling(word)) else { return };
        if self.logged.contains(word) {
            self.leaks.push(format!("{what} was logged: {word}"));
        }
        self.secrets.insert(word.to_owned(), what.to_owned());
    }

    /// Takes note of what was logged.
    pub fn hear(&mut self, line: &str) {
        self.leaks.extend(self.found_in(line).map(|what| format!("{what} is logged: {line}")));
        // A count of bytes may look like a code.
        let told = line.split_whitespace().filter(|part| !part.starts_with("bytes="));
        self.logged.extend(told.flat_map(words).filter(|word| is_telling(word)).map(str::to_owned));
    }

    /// Which secret a text tells.
    pub fn found_in(&self, text: &str) -> Option<&str> {
        let mark = MARKS.into_iter().find(|mark| text.contains(mark));
        mark.or_else(|| words(text).find_map(|word| self.secrets.get(word)).map(String::as_str))
    }

    /// What was told that must not be.
    pub fn leaks(&self) -> &[String] {
        &self.leaks
    }
}

/// Whether nobody would write this word by chance.
fn is_telling(word: &str) -> bool {
    let [code, other] = SHORTEST;
    let is_code = word.len() == code && word.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    let varied = word.bytes().any(|byte| !word.starts_with(char::from(byte)));
    // The armour of a PEM block is in every block, and a random body may hold a time as a code.
    varied && !word.contains("-----") && !is_time(word) && (is_code || word.len() >= other)
}

/// Whether a word begins as a time does (RFC 3339).
fn is_time(word: &str) -> bool {
    word.len() > 10
        && word.bytes().zip(b"dddd-dd-ddT").all(|(byte, form)| if *form == b'd' { byte.is_ascii_digit() } else { byte == *form })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_').filter(|word| !word.is_empty())
}

static WATCH: LazyLock<Mutex<SecretScan>> = LazyLock::new(Mutex::default);

/// Everything this process logs is heard from now on: our own rooms at every level.
pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let filter = EnvFilter::new("debug,overkeep=trace");
        let lines = fmt::Subscriber::builder().with_env_filter(filter).without_time().with_ansi(false).with_writer(|| Ear);
        tracing::subscriber::set_global_default(lines.finish()).unwrap();
    });
}

struct Ear;

impl Write for Ear {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        WATCH.lock().unwrap().hear(&String::from_utf8_lossy(line));
        Ok(line.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes note of the secrets in a request and its answer, and panics where one was told that must not be.
#[track_caller]
pub fn guard(path: &str, headers: &[(String, String)], body: &[u8], answer: &Answer) {
    let mut watch = WATCH.lock().unwrap();
    for (name, value) in headers.iter().filter(|(name, _)| HEADERS.contains(&name.as_str())) {
        watch.learn(name, value);
    }
    // Where somebody enrolls by a certificate alone, what is sent as a token is the id of an authority.
    let token = path.split(['?', '&']).find_map(|part| part.strip_prefix("token="));
    if let Some(token) = token.filter(|_| !path.contains("method=ca")) {
        watch.learn("the token of an enrollment", token);
    }
    collect(&mut watch, &serde_json::from_slice(body).unwrap_or_default());
    collect(&mut watch, answer.data());
    assert!(watch.leaks.is_empty(), "{:#?}", watch.leaks);
    let told = if answer.status >= 400 { watch.found_in(&answer.text) } else { MARKS.into_iter().find(|mark| answer.text.contains(mark)) };
    let told = told.map(str::to_owned);
    drop(watch);
    assert_eq!(told, None, "{}: {}", answer.asked, answer.text);
}

fn collect(watch: &mut SecretScan, json: &Json) {
    match json {
        Json::Object(members) => {
            for (name, value) in members {
                match value {
                    Json::String(secret) if MEMBERS.contains(&name.as_str()) => watch.learn(name, secret),
                    Json::Array(secrets) if name == "recoveryCodes" => {
                        secrets.iter().filter_map(Json::as_str).for_each(|secret| watch.learn(name, secret));
                    }
                    other => collect(watch, other),
                }
            }
        }
        Json::Array(entries) => entries.iter().for_each(|entry| collect(watch, entry)),
        _ => {}
    }
}
