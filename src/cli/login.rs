//! `overkeep login` and `overkeep logout`: access to a remote controller for the commands made from the route tables.

use std::{
    io::{self, BufRead, IsTerminal, Read, Write},
    path::PathBuf,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use clap::Args;
use data_encoding::HEXUPPER;
use ring::digest::{SHA256, digest};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::{Value as Json, json};
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use super::{
    api::{context::Context, request::Request, transport::Transport},
    failure::{Acted, Failure},
};
use crate::{admin_socket::Outcome, authentication::ApiTokens, config, pki::text_of};

const BASE: &str = "/edge/management/v1";
/// The maximum bytes of the answer with the authorities, and of a typed line.
const MAX_LENGTH: u64 = 256 << 10;

/// Log in to a remote controller. Later commands use it, unless they name a data file.
#[derive(Args, Clone, Debug)]
pub(crate) struct Login {
    /// Address of the controller: https://host:port
    url: String,
    /// The user name
    #[arg(long, value_name = "NAME", default_value = "admin")]
    user: String,
    /// Read the password from this file [default: ask for it]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Use an API token instead of a user name and password: that in OVERKEEP_TOKEN, or else one that is asked for
    #[arg(long, conflicts_with_all = ["user", "password_file", "code"])]
    token: bool,
    /// A one-time code, if a second factor is required
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// Trust the certificate authorities in this PEM file, without confirmation
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fingerprint", "yes"])]
    ca: Option<PathBuf>,
    /// Trust the certificate authority with this SHA-256 fingerprint, without confirmation
    #[arg(long, value_name = "HEX", conflicts_with = "yes")]
    fingerprint: Option<String>,
    /// Trust any certificate authority that the controller presents
    #[arg(long)]
    yes: bool,
}

/// End the session of the last login and delete it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Logout {}

impl Login {
    /// Logs in and keeps the session.
    ///
    /// # Errors
    /// One line.
    pub(crate) fn act(self) -> Acted {
        let url = self.url.trim_end_matches('/').to_owned();
        let host = url.strip_prefix("https://").unwrap_or_default();
        if host.is_empty() || host.contains(['/', '?', '#', '@']) {
            return Err(Failure::Flag(format!("URL: {:?} is not https://host:port", self.url)));
        }
        let (ca, shown) = self.authority(&url)?;
        if self.token {
            return kept_token(url, ca, shown);
        }
        let password = match config::password("--password-file", self.password_file.as_deref()).map_err(|error| error.to_string())? {
            Some(password) => password,
            None => typed(&format!("Password of {}: ", self.user))?,
        };
        let mut context = Context { url, user: self.user.clone(), ca, token: String::new() };
        let body = json!({ "username": self.user, "password": password.as_str() });
        let query = vec![("method".into(), "password".into())];
        let session = asked(&context, "POST", "/authenticate", query, Some(body))?;
        let token = session.get("token").and_then(Json::as_str).unwrap_or_default();
        context.token = token.to_owned();
        if session.get("authQueries").and_then(Json::as_array).is_some_and(|queries| !queries.is_empty()) {
            let code = self.code.clone().ok_or_else(|| Failure::of("a second factor is required: give a one-time code with --code"))?;
            asked(&context, "POST", "/authenticate/mfa", Vec::new(), Some(json!({ "code": code })))?;
        }
        let path = context.save()?;
        let message = format!("logged in to {} as {}; the session is kept in {}", context.url, context.user, path.display());
        Ok(Outcome::Done(vec![format!("authority: {shown}"), message]))
    }

    /// The certificate authorities to trust, in PEM, and their fingerprints.
    fn authority(&self, url: &str) -> Result<(String, String), Failure> {
        if let Some(path) = &self.ca {
            let pem = text_of(path).map_err(|error| Failure::of(format!("--ca: {}: {error}", path.display())))?;
            let blocks = pem::parse_many(pem.as_bytes()).map_err(|error| Failure::of(format!("--ca: {error}")))?;
            let shown: Vec<String> = blocks.iter().map(|block| fingerprint(block.contents())).collect();
            return Ok((pem.to_string(), shown.join(", ")));
        }
        let roots = shown_by(url)?;
        let prints: Vec<String> = roots.iter().map(|der| fingerprint(der)).collect();
        let trusted: Vec<&Vec<u8>> = match &self.fingerprint {
            None => roots.iter().collect(),
            Some(wanted) => {
                let wanted = bare(wanted);
                roots.iter().zip(&prints).filter(|(_, print)| bare(print) == wanted).map(|(der, _)| der).collect()
            }
        };
        if trusted.is_empty() {
            return Err(Failure::of(format!("the authority of {url} has another fingerprint: {}", prints.join(", "))));
        }
        if self.fingerprint.is_none() && !self.yes {
            confirm(url, &prints)?;
        }
        let pem: String = trusted.iter().map(|der| pem::encode(&pem::Pem::new("CERTIFICATE", der.as_slice()))).collect();
        Ok((pem, trusted.iter().map(|der| fingerprint(der)).collect::<Vec<_>>().join(", ")))
    }
}

impl Logout {
    /// Ends the session and deletes the login; it is deleted even if the session has already ended.
    ///
    /// # Errors
    /// There is no login, or the file cannot be deleted.
    pub(crate) fn act(self) -> Acted {
        let context = Context::load()?.ok_or_else(|| Failure::of("there is no login: use overkeep login first"))?;
        if ApiTokens::is_one(&context.token) {
            Context::delete()?;
            return Ok(Outcome::Done(vec![format!("the login to {} is deleted; its API token stays valid", context.url)]));
        }
        let ended = asked(&context, "DELETE", "/current-api-session", Vec::new(), None);
        Context::delete()?;
        let line = match ended {
            Ok(_) => format!("logged out of {}", context.url),
            Err(_) => format!("the login to {} is deleted; its session could not be ended", context.url),
        };
        Ok(Outcome::Done(vec![line]))
    }
}

/// Keeps an API token as the login, after it was used once.
fn kept_token(url: String, ca: String, shown: String) -> Acted {
    let given = std::env::var("OVERKEEP_TOKEN").ok().map(|token| Zeroizing::new(token.trim().to_owned())).filter(|token| !token.is_empty());
    let token = given.map_or_else(|| typed("API token: "), Ok)?;
    if !ApiTokens::is_one(&token) {
        return Err(Failure::of("the token is not an API token: overkeep create api-token makes one"));
    }
    let mut context = Context { url, user: String::new(), ca, token: token.to_string() };
    let session = asked(&context, "GET", "/current-api-session", Vec::new(), None)?;
    context.user = session.pointer("/identity/name").and_then(Json::as_str).unwrap_or_default().to_owned();
    let path = context.save()?;
    let message = format!("the API token of {} for {} is kept in {}", context.user, context.url, path.display());
    Ok(Outcome::Done(vec![format!("authority: {shown}"), message]))
}

fn asked(context: &Context, method: &str, path: &str, query: Vec<(String, String)>, body: Option<Json>) -> Result<Json, Failure> {
    let body = body.map(|body| ("application/json".to_owned(), body.to_string()));
    let request = Request { method: method.into(), path: format!("{BASE}{path}"), query, body, ..Request::default() };
    Ok(Transport::remote(context.clone())?.ask(request, None)?.good()?.data())
}

/// The self-signed authorities that a controller presents, in DER. They are unproven until a person compares their fingerprints.
fn shown_by(url: &str) -> Result<Vec<Vec<u8>>, Failure> {
    let refused = |error: String| Failure::of(format!("{url}: {error}"));
    let answer = super::api::https::agent(None)?.get(format!("{url}/.well-known/est/cacerts")).call();
    let mut answer = answer.map_err(|error| refused(error.to_string()))?;
    let text = answer.body_mut().with_config().limit(MAX_LENGTH).read_to_string().map_err(|error| refused(error.to_string()))?;
    roots_of(&text).map_err(|reason| refused(reason.into()))
}

/// The self-signed authorities in an answer of `/.well-known/est/cacerts`, in DER.
///
/// # Errors
/// It holds none.
pub(super) fn roots_of(text: &str) -> Result<Vec<Vec<u8>>, &'static str> {
    let der = STANDARD.decode(text.split_whitespace().collect::<String>()).map_err(|_| "the answer is not that of a controller")?;
    let roots: Vec<Vec<u8>> = certificates(&der);
    if roots.is_empty() { Err("the controller presents no certificate authority") } else { Ok(roots) }
}

/// The self-signed certificates found anywhere in a DER structure.
fn certificates(mut der: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let Some((_, next)) = der.split_first() {
        der = match X509Certificate::from_der(der) {
            Ok((rest, certificate)) => {
                let whole = der.get(..der.len().saturating_sub(rest.len())).unwrap_or_default();
                found.extend((certificate.subject() == certificate.issuer()).then(|| whole.to_vec()));
                rest
            }
            Err(_) => next,
        };
    }
    found
}

fn fingerprint(der: &[u8]) -> String {
    digest(&SHA256, der).as_ref().iter().map(|byte| HEXUPPER.encode(&[*byte])).collect::<Vec<_>>().join(":")
}

fn bare(fingerprint: &str) -> String {
    fingerprint.chars().filter(char::is_ascii_hexdigit).map(|digit| digit.to_ascii_lowercase()).collect()
}

fn confirm(url: &str, prints: &[String]) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        let shown = prints.join(", ");
        return Err(Failure::of(format!("the authority of {url} has the SHA-256 fingerprint {shown}: trust it with --fingerprint")));
    }
    drop(write!(io::stderr(), "The authority of {url} has the SHA-256 fingerprint\n  {}\nTrust it? [y/N] ", prints.join("\n  ")));
    let mut line = String::new();
    io::stdin().lock().take(MAX_LENGTH).read_line(&mut line).map_err(Failure::of)?;
    if ["y", "yes"].contains(&line.trim().to_ascii_lowercase().as_str()) {
        Ok(())
    } else {
        Err(Failure::of("the certificate authority was not confirmed"))
    }
}

/// Reads a secret from stdin, without echo on a terminal.
fn typed(prompt: &str) -> Result<Zeroizing<String>, Failure> {
    let stdin = io::stdin();
    let before = tcgetattr(&stdin).ok();
    if let Some(mut quiet) = before.clone() {
        drop(write!(io::stderr(), "{prompt}"));
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&stdin, OptionalActions::Flush, &quiet).map_err(Failure::of)?;
    }
    let mut line = Zeroizing::new(String::new());
    let read = stdin.lock().take(MAX_LENGTH).read_line(&mut line);
    if let Some(before) = before {
        tcsetattr(&stdin, OptionalActions::Flush, &before).map_err(Failure::of)?;
        drop(writeln!(io::stderr()));
    }
    read.map_err(Failure::of)?;
    Ok(Zeroizing::new(line.trim_end_matches(['\r', '\n']).to_owned()))
}
