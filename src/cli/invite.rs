//! `overkeep invite`: an identity, and the line with which it enrolls at the other end.

use std::{ffi::OsString, time::SystemTime};

use clap::Args;
use client::enrollment::EnrollmentToken;
use model::{
    clock::Timestamp,
    config::{Address, Config},
    hidden_text::{quoted, shown},
};
use query::literal;
use serde_json::{Value as Json, json};

use super::{
    admin::ControllerFlags,
    api::{
        self, encoded, output,
        request::{ApiRequest, JSON, MANAGEMENT},
        transport::Transport,
    },
    failure::{CommandError, CommandResult, warn},
    network_document::{entries, word},
    qr,
};
use crate::admin_socket::Outcome;

/// Make an identity and print the line that enrolls it at the other end, once. An identity that
/// has not enrolled yet gets its line again.
#[derive(Args, Clone, Debug)]
pub(crate) struct Invite {
    /// The name of the identity
    name: String,
    /// A role of the new identity; may be repeated
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// Make a new token; one that the identity has already ends with that
    #[arg(long)]
    renew: bool,
    /// Print the token as a QR code too, for clients on telephones
    #[arg(long)]
    qr: bool,
    #[command(flatten)]
    which: ControllerFlags,
}

/// The one-time token of an identity.
struct Ticket {
    text: String,
    token: EnrollmentToken,
    /// When it ends, as the controller writes it.
    end: String,
}

impl Invite {
    /// Makes the identity, or its token, as far as they do not exist.
    ///
    /// # Errors
    /// One line: the identity has enrolled, or the controller does not answer or refuses.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let transport = api::reach(self.which.clone(), environment)?;
        let said = match self.find(&transport)? {
            Some(identity) => self.again(&transport, &identity)?,
            None => {
                self.create(&transport)?;
                format!("create identities {}", self.name)
            }
        };
        let ticket = self.ticket(&transport)?;
        let origin = ticket.origin();
        let mut lines = vec![
            shown(&said),
            shown(&format!(
                "to run at the other end, once, before {}; it reaches the controller at https://{origin}:",
                ticket.end
            )),
        ];
        if self.qr {
            let code = qr::lines(&ticket.text)?;
            let needed = code.first().map_or(0, |line| line.chars().count());
            if output::width().is_some_and(|width| width < needed) {
                warn(&format!(
                    "the QR code is {needed} characters wide, and this terminal is not"
                ));
            }
            lines.extend(code);
        }
        lines.push(format!(
            "echo {} | overkeep enroll - -o {}",
            ticket.text,
            file_for(&self.name)
        ));
        if origin
            .parse::<Address>()
            .is_ok_and(|address| address.is_loopback())
        {
            warn(&format!(
                "{origin} is reachable only from the host of the controller: set advertise to the HOST:PORT that others use (overkeep run \
                 --advertise), and invite with --renew then"
            ));
        }
        Ok(Outcome::Done(lines))
    }

    /// The identity, if it exists.
    fn find(&self, transport: &Transport) -> Result<Option<Json>, CommandError> {
        let mut request = request("GET", "/identities", None);
        let filter = format!("name = {}", literal(&self.name));
        request.query.push(("filter".into(), filter));
        let found = transport.ask(request, None)?.good()?.data();
        Ok(output::entries(&found).next().cloned())
    }

    fn create(&self, transport: &Transport) -> Result<(), CommandError> {
        let body = json!({
            "name": self.name,
            "type": "Default",
            "isAdmin": false,
            "roleAttributes": self.roles,
            "enrollment": { "ott": true },
        });
        send(transport, "/identities", &body)
    }

    /// Sees to it that an identity that exists has a token. Returns what is said about it.
    fn again(&self, transport: &Transport, identity: &Json) -> Result<String, CommandError> {
        let (name, id) = (&self.name, word(identity, "/id"));
        let credentials = identity.get("authenticators").and_then(Json::as_object);
        if let Some(credential) = credentials.and_then(|all| all.values().next()) {
            return Err(CommandError::of(format!(
                "identity {name} exists and has enrolled: choose another name, or delete its credential first, with overkeep delete authenticator {}",
                word(credential, "/id")
            )));
        }
        let has: Vec<&str> = entries(identity, "roleAttributes")
            .iter()
            .filter_map(Json::as_str)
            .collect();
        for role in &self.roles {
            if !has.contains(&role.as_str()) {
                warn(&format!(
                    "{name} exists and does not have the role {role}: overkeep update identity --add-role {} -- {}",
                    quoted(&shown(role)),
                    quoted(&shown(name))
                ));
            }
        }
        let now = Timestamp::from(SystemTime::now());
        // As long as the first token of an identity, with a configuration that does not say so.
        let end = now.plus(Config::default().enrollment.identity_duration.duration());
        let Some(ticket) = identity.pointer("/enrollment/ott") else {
            let body = json!({ "identityId": id, "method": "ott", "expiresAt": end });
            send(transport, "/enrollments", &body)?;
            return Ok(format!(
                "identity {name} exists and had no token: this is a new one"
            ));
        };
        let has_ended = word(ticket, "/expiresAt")
            .parse::<Timestamp>()
            .is_ok_and(|end| end <= now);
        if !has_ended && !self.renew {
            return Ok(format!(
                "identity {name} exists and has not enrolled: this is the token that it has; --renew makes another one"
            ));
        }
        let path = format!("/enrollments/{}/refresh", encoded(word(ticket, "/id")));
        send(transport, &path, &json!({ "expiresAt": end }))?;
        let why = if has_ended {
            "its token has ended"
        } else {
            "its token ends with this"
        };
        Ok(format!(
            "identity {name} exists and has not enrolled: {why}, and this is a new one"
        ))
    }

    fn ticket(&self, transport: &Transport) -> Result<Ticket, CommandError> {
        let identity = self.find(transport)?.unwrap_or_default();
        let ticket = identity.pointer("/enrollment/ott").unwrap_or(&Json::Null);
        let text = word(ticket, "/jwt").trim().to_owned();
        if text.is_empty() {
            return Err(CommandError::of(format!(
                "the controller does not show the token of {}",
                self.name
            )));
        }
        // It becomes a word of a shell.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !text.bytes().all(is_plain) {
            return Err(CommandError::of(format!(
                "the token of {} is not a JWT",
                self.name
            )));
        }
        Ok(Ticket {
            token: EnrollmentToken::read(&text).map_err(CommandError::of)?,
            end: word(ticket, "/expiresAt").to_owned(),
            text,
        })
    }
}

impl Ticket {
    /// The host and port of the controller.
    fn origin(&self) -> &str {
        let address = self.token.controller();
        let address = address.strip_prefix("https://").unwrap_or(address);
        address.split('/').next().unwrap_or_default()
    }
}

/// A file for an identity: its name, without letters that a shell or a directory reads in their own
/// way.
fn file_for(name: &str) -> String {
    let safe = |letter: char| {
        if letter.is_ascii_alphanumeric() || "-_.".contains(letter) {
            letter
        } else {
            '-'
        }
    };
    let name: String = name.chars().take(64).map(safe).collect();
    let name = name.trim_start_matches(['-', '.']);
    let stem = if name.is_empty() { "identity" } else { name };
    format!("{stem}.json")
}

fn request(method: &str, path: &str, body: Option<&Json>) -> ApiRequest {
    ApiRequest {
        method: method.into(),
        path: format!("{MANAGEMENT}{path}"),
        body: body.map(|body| (JSON.into(), body.to_string())),
        ..ApiRequest::default()
    }
}

fn send(transport: &Transport, path: &str, body: &Json) -> Result<(), CommandError> {
    let mut request = request("POST", path, Some(body));
    request.query.push(("strict".into(), "true".into()));
    transport.ask(request, None)?.good().map(drop)
}
