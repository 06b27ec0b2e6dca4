//! `overkeep publish`: a service, its configs, and the policies for its hosts and its users.

use std::ffi::OsString;

use clap::Args;
use client::{Protocol, Target};
use model::{
    entity::singular,
    hidden_text::{quoted, shown},
};
use serde_json::{Value as Json, json};

use super::{ATTEMPTS, NOTHING_CHANGED, TAG, changes, given_up};
use crate::{
    admin_socket::Outcome,
    cli::{
        admin::ControllerFlags,
        api::{self, output},
        failure::{CommandError, CommandResult},
        network_document::{entries, object_line, word},
    },
};

/// Where the printed command of a user listens.
const LISTEN: &str = "127.0.0.1:8080";
/// The lists of the document, in the order of their lines.
const KINDS: [&str; 3] = ["configs", "services", "service-policies"];

/// Make a service that some host and others use: the service, its configs, and both policies, in
/// one transaction. What exists already stays.
#[derive(Args, Clone, Debug)]
pub(crate) struct Publish {
    /// The name of the service
    name: String,
    /// Who hosts it: the name of an identity, or # and a role; may be repeated
    #[arg(long, value_name = "WHO", required = true)]
    host: Vec<String>,
    /// Who may use it: the name of an identity, or # and a role; may be repeated
    #[arg(long, value_name = "WHO", required = true)]
    to: Vec<String>,
    /// Where the host reaches the server: HOST:PORT or udp:HOST:PORT, for a config of the type
    /// host.v1, by which tunnelers host it
    #[arg(long, value_name = "TARGET")]
    target: Option<Target>,
    /// The address by which the users' programs ask for it: HOST:PORT or udp:HOST:PORT, for a
    /// config of the type intercept.v1
    #[arg(long, value_name = "ADDRESS")]
    address: Option<Target>,
    /// Print what would be made, and who would gain access, and change nothing
    #[arg(long)]
    preview: bool,
    #[command(flatten)]
    which: ControllerFlags,
}

impl Publish {
    /// Makes what does not exist yet.
    ///
    /// # Errors
    /// One line: something exists that differs, a name is unknown, or the controller does not
    /// answer. Nothing was changed then.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let transport = api::reach(self.which.clone(), environment)?;
        let wanted = self.document();
        for _ in 0..ATTEMPTS {
            let mut plan = changes::plan(&transport, &wanted)?;
            let document = with_stored(&wanted, &plan)?;
            if document != wanted {
                plan = changes::plan(&transport, &document)?;
            }
            // A record that existed has been changed since.
            if !changes::is_of_creations(&plan) {
                continue;
            }
            let is_done = self.preview
                || created(&plan).is_empty()
                || changes::apply(&transport, &document, &plan)?;
            if is_done {
                return Ok(Outcome::Done(self.lines(&document, &plan)));
            }
        }
        Err(given_up())
    }

    /// The document with the records as a new publication has them.
    fn document(&self) -> Json {
        let (name, tags) = (self.name.as_str(), json!({ TAG: self.name }));
        let (mut configs, mut names) = (Vec::new(), Vec::new());
        let mut add = |kind: &str, data: Json| {
            let name = format!("{name}.{kind}");
            configs.push(json!({ "name": name, "configTypeId": kind, "data": data, "tags": tags }));
            names.push(name);
        };
        if let Some(target) = &self.target {
            let Target {
                protocol,
                host,
                port,
            } = target;
            let data = json!({ "protocol": protocol.name(), "address": host, "port": port });
            add("host.v1", data);
        }
        if let Some(address) = &self.address {
            let (protocol, host, port) = (address.protocol.name(), &address.host, address.port);
            let ports = json!([{ "low": port, "high": port }]);
            let data = json!({ "protocols": [protocol], "addresses": [host], "portRanges": ports });
            add("intercept.v1", data);
        }
        let service =
            json!({ "name": name, "encryptionRequired": true, "configs": names, "tags": tags });
        let policy = |right: &str, who: &[String]| {
            json!({
                "name": format!("{name}.{}", right.to_lowercase()),
                "type": right,
                "semantic": "AnyOf",
                "identityRoles": roles(who),
                "serviceRoles": [format!("@{name}")],
                "tags": tags,
            })
        };
        let policies = [policy("Bind", &self.host), policy("Dial", &self.to)];
        json!({ "configs": configs, "services": [service], "service-policies": policies })
    }

    fn lines(&self, document: &Json, plan: &Json) -> Vec<String> {
        let created = created(plan);
        let mut lines = Vec::new();
        for kind in KINDS {
            for record in entries(document, kind) {
                let name = word(record, "/name");
                let is_new = created.iter().find(|object| {
                    word(object, "/entity") == kind && word(object, "/name") == name
                });
                lines.push(is_new.map_or_else(
                    || format!("keep {kind} {}, which exists", shown(name)),
                    |object| object_line(object),
                ));
            }
        }
        let access = output::access(plan);
        if access.is_empty() {
            lines.push("nobody gains access".to_owned());
        }
        lines.extend(access);
        lines.extend(self.unmatched(&created, plan));
        if self.preview {
            lines.push(NOTHING_CHANGED.to_owned());
        } else {
            lines.extend(self.commands());
        }
        lines
    }

    /// Which rights of a new service nobody has, because nobody has the roles.
    fn unmatched(&self, created: &[&Json], plan: &Json) -> Vec<String> {
        let is_new = created
            .iter()
            .any(|object| word(object, "/entity") == "services");
        let rights = [("dial", &self.to), ("bind", &self.host)];
        let is_unmatched = |right: &str| {
            let pairs = plan.pointer(&format!("/{right}/gained/pairs"));
            is_new && pairs.and_then(Json::as_u64) == Some(0)
        };
        rights
            .into_iter()
            .filter(|(right, _)| is_unmatched(right))
            .map(|(right, who)| {
                shown(&format!(
                    "nobody may {right} {} yet: no identity is {}",
                    self.name,
                    who.join(" or ")
                ))
            })
            .collect()
    }

    /// What to run on both machines.
    fn commands(&self) -> [String; 2] {
        let target = self.target.as_ref().map(ToString::to_string);
        let host = target.unwrap_or_else(|| "HOST:PORT".to_owned());
        let protocol = |of: &Option<Target>| of.as_ref().map(|of| of.protocol);
        let known = protocol(&self.target).or_else(|| protocol(&self.address));
        let listen = match known {
            Some(Protocol::Udp) => format!("udp:{LISTEN}"),
            _ => LISTEN.to_owned(),
        };
        let line = |who: &[String], command: &str, place: &str| {
            // A word with a dash in front would be a flag.
            let end = if [self.name.as_str(), place]
                .iter()
                .any(|word| word.starts_with('-'))
            {
                "-- "
            } else {
                ""
            };
            format!(
                "on the machine of {}: overkeep {command} -i FILE {end}{} {}",
                shown(&who.join(", ")),
                quoted(&shown(&self.name)),
                quoted(&shown(place))
            )
        };
        [
            line(&self.host, "host", &host),
            line(&self.to, "forward", &listen),
        ]
    }
}

/// The objects that a plan creates.
fn created(plan: &Json) -> Vec<&Json> {
    entries(plan, "objects")
        .iter()
        .filter(|object| word(object, "/action") == "create")
        .collect()
}

/// The document with the stored values where a record exists that does not differ: another tag, and
/// lists in another order, are no difference. Applied, it leaves these records as they are.
///
/// # Errors
/// A record exists and differs. The error names the members.
fn with_stored(wanted: &Json, plan: &Json) -> Result<Json, CommandError> {
    let (mut document, mut differing) = (wanted.clone(), Vec::new());
    let updates = entries(plan, "objects")
        .iter()
        .filter(|object| word(object, "/action") == "update");
    for object in updates {
        let (kind, name) = (word(object, "/entity"), word(object, "/name"));
        let record = document
            .get_mut(kind)
            .and_then(Json::as_array_mut)
            .into_iter()
            .flatten()
            .find(|record| word(record, "/name") == name);
        let Some(record) = record else {
            continue;
        };
        for change in entries(object, "members") {
            let member = word(change, "/member");
            let of = |side: &str| change.get(side).cloned().unwrap_or_default();
            let (before, after) = (of("before"), of("after"));
            if member == "tags" || sorted(&before) == sorted(&after) {
                if let Some(record) = record.as_object_mut() {
                    record.insert(member.to_owned(), before);
                }
            } else {
                differing.push(format!(
                    "{} {name} exists and differs: {member} is {before}, not {after}",
                    singular(kind)
                ));
            }
        }
    }
    if differing.is_empty() {
        Ok(document)
    } else {
        Err(CommandError::of(format!(
            "{}; {NOTHING_CHANGED}",
            differing.join("; ")
        )))
    }
}

/// A list without its order; anything else as it is.
fn sorted(value: &Json) -> Vec<String> {
    let mut texts: Vec<String> = value
        .as_array()
        .map_or_else(|| vec![value.clone()], Clone::clone)
        .iter()
        .map(Json::to_string)
        .collect();
    texts.sort();
    texts
}

/// Roles as policies have them: a name stands for one record. `@` before a name is for one that
/// begins with a sign.
fn roles(who: &[String]) -> Vec<String> {
    let role = |text: &String| {
        if text.starts_with(['#', '@']) {
            text.clone()
        } else {
            format!("@{text}")
        }
    };
    let mut roles: Vec<String> = who.iter().map(role).collect();
    roles.sort();
    roles.dedup();
    roles
}
