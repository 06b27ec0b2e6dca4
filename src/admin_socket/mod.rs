//! The commands of the host's owner, which need no password: list administrators, reset a password,
//! unlock an identity, make a one-time link to the page, list certificates, renew the server's key,
//! explain access, verify the history, and copy, check or repair the file.
//!
//! Here: the commands and their effect on a store. [`socket`] sends them to a running controller
//! over a socket beside the data file; only the owner of the data file can open the socket. If no
//! controller runs, `cli/` opens the data file itself and runs the command on it. [`request`] sends
//! API requests over the same socket. Start reading at [`Command`]. Invariant: every use is logged,
//! and no password is.

mod command;
mod connection;
mod report;
pub mod request;
pub mod socket;

use std::{net::IpAddr, sync::Arc, time::Duration};

pub use command::{Command, Outcome};
use pki::{Adoption, Certificate, Role};
use report::unusable_lines;
pub(crate) use report::{copied, describe, found, verified_lines};

use maintenance::{Maintenance, Work};
use model::{
    clock::{Clock, Timestamp},
    entity::{AuthPolicy, Authenticator, EdgeRouter, Identity, Record, TransitRouter, TypedLookup},
    error::{Error, Result},
    hidden_text,
};
use policy::{
    access::{Access, Right},
    authentication::{LoginLinks, Passwords, administrators},
    change::{self, Certificates, Change, Changes},
    explain::{self, Question},
    hosting::Hosting,
    posture::Posture,
};
use store::{Progress, Read, Store};

/// The components that commands work on.
#[derive(Clone)]
pub struct AdminContext {
    pub store: Store,
    pub changes: Changes,
    pub passwords: Passwords,
    pub certificates: Arc<Certificates>,
    pub access: Access,
    pub maintenance: Maintenance,
    /// The state of endpoints; only a running controller has it.
    pub posture: Option<Posture>,
    /// Who hosts what; only a running controller knows.
    pub(crate) hosting: Option<Hosting>,
    /// Makes links; only a running controller can.
    pub links: Option<LinkMaker>,
    pub clock: Clock,
}

/// The data that links to the page are made from.
#[derive(Clone)]
pub struct LinkMaker {
    pub links: LoginLinks,
    /// The `host:port` that clients are sent to first.
    pub address: String,
}

/// The longest time that a link can be used, in minutes.
pub(crate) const MAX_LINK_MINUTES: u32 = 60;

impl AdminContext {
    /// Runs a command and logs it.
    ///
    /// # Errors
    /// The user name is unknown, the auth policy rejects the password, or the store fails.
    pub fn act(&self, command: Command, progress: &Arc<Progress>) -> Result<Outcome> {
        if command.is_read_only() {
            tracing::debug!(?command, "admin socket command");
        } else {
            tracing::info!(?command, "admin socket command");
        }
        let lines = match command {
            Command::ListAdministrators => self.list_administrators(),
            Command::ResetPassword {
                username,
                password,
                allow_passwords,
            } => self.reset_password(&username, &password, allow_passwords),
            Command::Unlock { username } => self.unlock(&username),
            Command::Link {
                identity,
                from,
                minutes,
            } => self.link(identity.as_deref(), from, minutes),
            Command::Explain {
                right,
                identity,
                service,
                json,
            } => return self.explain(right, &identity, &service, json),
            Command::ListCertificates => self.list_certificates(),
            Command::RenewKey => self.renew_key(),
            Command::AdoptAuthority {
                certificate,
                key,
                bundle,
            } => self.adopt_authority(&certificate, &key, &bundle),
            Command::Snapshot { to } => self
                .maintenance
                .snapshot_to(&to, progress)
                .map(|manifest| copied(&manifest, &to)),
            Command::Check => {
                return problems_if_damaged(
                    self.maintenance
                        .run(Work::Check, progress)
                        .map(|report| found(&report)),
                );
            }
            Command::Repair => {
                return problems_if_damaged(
                    self.maintenance
                        .run(Work::Repair, progress)
                        .map(|report| found(&report)),
                );
            }
            Command::VerifyHistory { noted } => {
                return problems_if_damaged(
                    self.store
                        .verify_history(noted.as_ref())
                        .map(|verified| verified_lines(&verified)),
                );
            }
        };
        lines
            .map(|lines| Outcome::Done(lines.iter().map(|line| hidden_text::shown(line)).collect()))
    }

    /// The outcome is a problem unless the answer is yes.
    fn explain(&self, right: Right, identity: &str, service: &str, json: bool) -> Result<Outcome> {
        let (posture, hosting) = (self.posture.as_ref(), self.hosting.as_ref());
        let question = Question {
            identity,
            service,
            right,
            access: &self.access,
            posture,
            hosting,
        };
        let answer = self.store.read(|tx| explain::explain(tx, &question))?;
        let text = if json {
            hidden_text::json(
                &serde_json::to_string_pretty(&answer)
                    .map_err(|e| Error::Internal(e.to_string()))?,
            )
        } else {
            answer.text.clone()
        };
        let unknown = self.posture.is_none() && !json;
        let note = unknown
            .then_some("note: no controller runs, so the state of endpoints for posture checks is not known, and nothing is connected");
        let lines = text.lines().chain(note).map(hidden_text::shown).collect();
        Ok(if answer.verdict {
            Outcome::Done(lines)
        } else {
            Outcome::Problems(lines)
        })
    }

    fn list_administrators(&self) -> Result<Vec<String>> {
        let now = self.clock.now();
        self.store.read(|tx| {
            let administrators = administrators(tx)?;
            let mut lines = Vec::with_capacity(administrators.len());
            for identity in administrators {
                let credentials = tx.linked::<Authenticator>("identity", identity.id.as_str())?;
                let users: Vec<&str> = credentials
                    .iter()
                    .filter_map(|record| record.spec.credential.username())
                    .collect();
                let state = if identity.state.is_disabled(now) {
                    "disabled"
                } else {
                    "enabled"
                };
                let users = if users.is_empty() {
                    "no password".into()
                } else {
                    format!("user name {}", users.join(", "))
                };
                lines.push(format!(
                    "{} ({}): {state}, {users}",
                    identity.spec.name, identity.id
                ));
            }
            Ok(lines)
        })
    }

    fn list_certificates(&self) -> Result<Vec<String>> {
        let now = self.clock.now();
        let keystore = self.certificates.keystore();
        let shown = keystore.leaf_certificate();
        let line_of = |(role, certificate): (Role, Certificate)| {
            let line = format!(
                "{role}: {}, ends {}",
                certificate.subject(),
                Timestamp::from_seconds(certificate.not_after())
            );
            // Browsers show the fingerprint of the certificate that listeners serve.
            if certificate == shown {
                format!("{line}, SHA-256 {}", certificate.browser_fingerprint())
            } else {
                line
            }
        };
        let mut lines: Vec<String> = keystore.certificates().into_iter().map(line_of).collect();
        lines.extend(self.certificates.notices(now));
        lines.extend(
            self.certificates
                .former_addresses()?
                .iter()
                .map(ToString::to_string),
        );
        lines.extend(unusable_lines(&self.certificates.unusable_files(now)?));
        Ok(lines)
    }

    fn renew_key(&self) -> Result<Vec<String>> {
        let unusable = self.certificates.renew_key(self.clock.now())?;
        let mut lines = vec!["the server has a new key and certificate".to_owned()];
        lines.extend(unusable_lines(&unusable));
        Ok(lines)
    }

    fn adopt_authority(&self, certificate: &str, key: &str, bundle: &str) -> Result<Vec<String>> {
        let now = self.clock.now();
        let adoption = Adoption::read(certificate, key, bundle, now.seconds())
            .map_err(|e| Error::invalid("authority", e.to_string(), ""))?;
        let has_clients = |tx: &Read<'_>| {
            let mut is_one = false;
            tx.each::<Authenticator>(|record| {
                is_one |= record.is_issued_by_network();
                Ok(())
            })?;
            tx.each::<EdgeRouter>(|record| {
                is_one |= record.state.fingerprint.is_some();
                Ok(())
            })?;
            tx.each::<TransitRouter>(|record| {
                is_one |= record.state.fingerprint.is_some();
                Ok(())
            })?;
            Ok(is_one)
        };
        let has_new_root = !adoption.is_below(self.certificates.keystore().authority().cas());
        if has_new_root && self.store.read(has_clients)? {
            let reason = "has a root that enrolled clients do not trust: adopt it in a data file without enrolled clients";
            return Err(Error::invalid("authority", reason, ""));
        }
        self.certificates.adopt(&adoption, now)?;
        let signing = self
            .certificates
            .keystore()
            .authority()
            .certificate()
            .clone();
        Ok(vec![format!(
            "{} signs from now on, until {}",
            signing.subject(),
            Timestamp::from_seconds(signing.not_after())
        )])
    }

    fn reset_password(&self, username: &str, password: &str, allow: bool) -> Result<Vec<String>> {
        let (name, hash, password) = (
            username.to_owned(),
            self.passwords.hash_now(password)?,
            password.to_owned(),
        );
        let (identity, also) = self.changes.run_blocking(move |change| {
            let authenticator = authenticator_of(change, &name)?;
            let identity = change.get(&authenticator.spec.identity_id)?;
            let policy = change.get(identity.spec.auth_policy())?;
            policy.spec.primary.updb.check_password(&password)?;
            let allowed = allow_passwords(change, policy, allow)?;
            let edit = change::authenticator::PasswordEdit {
                password: Some(hash),
                ..change::authenticator::PasswordEdit::default()
            };
            change::authenticator::edit(change, authenticator, edit, None)?;
            let was_disabled = identity.state.is_disabled(change.now());
            let enabled = was_disabled
                .then(|| format!("{} was disabled, and is enabled now", identity.spec.name));
            change::identity::enable(change, &identity.id)?;
            Ok((identity.id, enabled.into_iter().chain(allowed)))
        })?;
        self.passwords.forgive(&identity);
        Ok(std::iter::once(format!(
            "{username} has a new password; its sessions are ended"
        ))
        .chain(also)
        .collect())
    }

    fn link(
        &self,
        identity: Option<&str>,
        from: Option<IpAddr>,
        minutes: u32,
    ) -> Result<Vec<String>> {
        let maker = self.links.as_ref().ok_or_else(|| {
            Error::invalid(
                "link",
                "needs a running controller; start it with overkeep run",
                "",
            )
        })?;
        if !(1..=MAX_LINK_MINUTES).contains(&minutes) {
            return Err(Error::invalid(
                "minutes",
                format!("must be between 1 and {MAX_LINK_MINUTES}"),
                minutes.to_string(),
            ));
        }
        let (now, lasts) = (
            self.clock.now(),
            Duration::from_secs(u64::from(minutes) * 60),
        );
        let administrators = self.store.read(administrators)?;
        let is_meant = |one: &Record<Identity>| match identity {
            Some(wanted) => one.id.as_str() == wanted || one.spec.name == wanted,
            None => one.state.is_default_admin,
        };
        let wanted = identity.unwrap_or_default();
        let unknown = || {
            Error::invalid(
                "identity",
                "is no administrator; overkeep admin list shows them by name and id",
                wanted,
            )
        };
        let found = administrators
            .iter()
            .find(|one| is_meant(one))
            .ok_or_else(unknown)?;
        if found.state.is_disabled(now) {
            return Err(Error::invalid(
                "identity",
                "is disabled; overkeep admin unlock enables it",
                &found.spec.name,
            ));
        }
        let secret = maker.links.make(found.id.clone(), from, now, lasts)?;
        let machine = from.map_or_else(|| "this host".into(), |address| address.to_string());
        Ok(vec![
            format!("https://{}/#/link/{secret}", maker.address),
            format!(
                "logs in {}, once, from {machine}, until {}",
                found.spec.name,
                now.plus(lasts)
            ),
        ])
    }

    fn unlock(&self, username: &str) -> Result<Vec<String>> {
        let name = username.to_owned();
        let identity = self.changes.run_blocking(move |change| {
            let identity = authenticator_of(change, &name)?.spec.identity_id;
            change::identity::enable(change, &identity)?;
            Ok(identity)
        })?;
        self.passwords.forgive(&identity);
        Ok(vec![format!("{username} is enabled")])
    }
}

/// Damage that ends a check early is a result of the check.
pub(crate) fn problems_if_damaged(result: Result<Outcome>) -> Result<Outcome> {
    match result {
        Err(error @ Error::Damaged { .. }) => Ok(Outcome::Problems(vec![error.to_string()])),
        other => other,
    }
}

/// Makes an auth policy allow passwords, if `may_change`. Returns what was changed.
fn allow_passwords(
    change: &Change<'_, '_>,
    mut policy: Record<AuthPolicy>,
    may_change: bool,
) -> Result<Option<String>> {
    if policy.spec.primary.updb.allowed {
        return Ok(None);
    }
    let name = policy.spec.name.clone();
    if !may_change {
        let reason = format!(
            "the auth policy {name} does not allow passwords; with --allow-passwords it will, for everybody who has it"
        );
        return Err(Error::invalid("password", reason, ""));
    }
    policy.spec.primary.updb.allowed = true;
    change.put(policy)?;
    Ok(Some(format!(
        "the auth policy {name} allows passwords now, for everybody who has it; take that back once you have another way in"
    )))
}

/// The authenticator of a user name.
fn authenticator_of(change: &Change<'_, '_>, username: &str) -> Result<Record<Authenticator>> {
    let found = change
        .read()
        .find_by::<Authenticator>("updbUsername", username)?;
    found.ok_or_else(|| Error::invalid("username", "no authenticator has this user name", username))
}
