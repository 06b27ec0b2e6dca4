//! A new data file with the network of another controller. It appears under its name only when it
//! is complete.

use std::{collections::BTreeSet, ffi::OsString, fs, io, path::PathBuf};

use clap::Args;
use model::{
    config::{Address, Config},
    hidden_text::shown,
};
use rest::Interfaces;
use store::{Progress, ReservedName, beside};

use super::{
    import_job::{ImportSummary, Network},
    import_records,
    network_file::names_line,
    source::{ImportedCredentials, SourceKind, is, records_of, text},
};
use crate::{
    admin_socket::{Command, Outcome},
    cli::{
        admin::ControllerFlags,
        authority_files::AuthorityFiles,
        failure::{CommandError, CommandResult},
    },
    controller,
};

/// The suffix of the file while it is incomplete.
const INCOMPLETE: &str = ".importing";

/// The flags about a new data file.
#[derive(Args, Clone, Debug)]
pub(super) struct NewFileFlags {
    /// Write the network with its ids to this new data file. Exit status 3 if records had to be
    /// left out
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    #[command(flatten)]
    authority: AuthorityFiles,
    /// The HOST:PORT that new enrollments name [default: that of --from]
    #[arg(long, value_name = "HOST:PORT", requires = "into")]
    advertise: Option<Address>,
    /// Read the configuration from this file; only for --into
    #[arg(long, value_name = "FILE", requires = "into")]
    config: Option<PathBuf>,
    /// File with a passphrase that seals the keys in the new data file
    #[arg(long, value_name = "FILE", requires = "into")]
    passphrase_file: Option<PathBuf>,
}

/// A data file to be written.
pub(super) struct NewFile {
    path: PathBuf,
    /// Held until the complete file has the name, so that no other program creates one meanwhile.
    reserved: ReservedName,
    incomplete: PathBuf,
    config: Config,
    advertised: Address,
    adopted: Option<Command>,
}

impl NewFile {
    /// Reads the files that the import needs, before any request to the other controller. `host` is
    /// the `host:port` of that controller. `None` if no new file is wanted.
    ///
    /// # Errors
    /// One line: the file exists, another file cannot be read, or a flag is invalid.
    pub(super) fn prepare(
        flags: NewFileFlags,
        host: &str,
        environment: &[(OsString, OsString)],
    ) -> Result<Option<Self>, CommandError> {
        let NewFileFlags {
            into,
            authority,
            advertise,
            config,
            passphrase_file,
        } = flags;
        let Some(path) = into else {
            return if authority.is_given() {
                Err(CommandError::Flag("--signing-cert: needs --into".into()))
            } else {
                Ok(None)
            };
        };
        let incomplete = beside(&path, INCOMPLETE);
        if path.symlink_metadata().is_ok() {
            return Err(CommandError::of(format!(
                "--into: {} exists already",
                path.display()
            )));
        }
        let reserved = ReservedName::take(&path)
            .map_err(|error| CommandError::of(format!("--into: {error}")))?;
        // No import to this name runs: what is there was left by one that was interrupted.
        match fs::remove_file(&incomplete) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(CommandError::of(format!(
                    "--into: {}: {error}",
                    incomplete.display()
                )));
            }
            _ => {}
        }
        let config = ControllerFlags::with_passphrase(config, &incomplete, passphrase_file)
            .config(environment)?;
        let advertised = match advertise.or_else(|| config.advertise.first().cloned()) {
            Some(address) => address,
            None => host.parse().map_err(|error| {
                CommandError::Flag(format!("--from: {error}; give --advertise"))
            })?,
        };
        let adopted = authority.command()?;
        Ok(Some(Self {
            path,
            reserved,
            incomplete,
            config,
            advertised,
            adopted,
        }))
    }

    /// Writes the file. The user who read the other controller keeps this password.
    ///
    /// # Errors
    /// One line; then the file does not exist, and what was written of it is removed.
    pub(super) fn write(
        self,
        (user, password): (String, &str),
        kinds: Vec<SourceKind>,
        credentials: ImportedCredentials,
        missing: &[String],
        dropped: Vec<String>,
    ) -> CommandResult {
        if let Some(kind) = missing
            .iter()
            .find(|kind| import_records::RESTRICTING.contains(&kind.as_str()))
        {
            return Err(CommandError::of(format!(
                "the other controller does not list {kind}; without them, more would be allowed than before"
            )));
        }
        let mut lines = notes(&kinds, &credentials, missing, dropped);
        let Self {
            path,
            reserved,
            incomplete,
            config,
            advertised,
            adopted,
        } = self;
        let written = fill(
            &config,
            advertised,
            adopted,
            (user, password),
            kinds,
            credentials,
        )
        .and_then(|written| {
            reserved.give_to(&incomplete).map_err(|error| {
                CommandError::of(format!("--into: {}: {error}", path.display()))
            })?;
            Ok(written)
        });
        let (imported, authority) = written.inspect_err(|_| drop(fs::remove_file(&incomplete)))?;
        let mut report = report(&imported);
        report.extend(authority);
        report.append(&mut lines);
        report.push(format!(
            "{} is complete; start it with overkeep run --data {0}",
            path.display()
        ));
        Ok(if imported.left_out.is_empty() {
            Outcome::Done(report)
        } else {
            Outcome::Problems(report)
        })
    }
}

/// Writes the file of a configuration, complete and closed. Returns what was imported, and the
/// lines about the adopted authority.
fn fill(
    config: &Config,
    advertised: Address,
    adopted: Option<Command>,
    (user, password): (String, &str),
    kinds: Vec<SourceKind>,
    credentials: ImportedCredentials,
) -> Result<(ImportSummary, Vec<String>), CommandError> {
    let context = controller::new_file(config, advertised).map_err(CommandError::of)?;
    let filled = || {
        let authority =
            match adopted.map(|command| context.act(command, &Progress::default().into())) {
                Some(outcome) => match outcome.map_err(CommandError::of)? {
                    Outcome::Done(lines) | Outcome::Problems(lines) => lines,
                },
                None => vec!["no authority was adopted: everybody enrolls again".to_owned()],
            };
        let declared = Interfaces::new().map_err(CommandError::of)?.declared();
        let password = context
            .passwords
            .hash_now(password)
            .map_err(CommandError::of)?;
        let imported = import_records::import(
            &context.changes,
            Network::new(kinds, credentials, declared, (user, password)),
        )?;
        controller::complete(&context).map_err(CommandError::of)?;
        Ok((imported, authority))
    };
    let filled = filled();
    context.store.close();
    filled
}

/// The names of identities with an enrollment that the other controller did not list.
fn without_enrollment<'k>(
    kinds: &'k [SourceKind],
    credentials: &ImportedCredentials,
) -> Vec<&'k str> {
    if credentials.unread.is_none() {
        return Vec::new();
    }
    let listed: BTreeSet<&str> = credentials
        .enrollments
        .iter()
        .map(|record| text(record, "identityId"))
        .collect();
    let waits = |record: &&serde_json::Value| {
        let own = record
            .get("enrollment")
            .and_then(serde_json::Value::as_object);
        own.is_some_and(|own| own.values().any(|one| !one.is_null()))
            && !listed.contains(text(record, "id"))
    };
    records_of(kinds, "identities")
        .filter(waits)
        .map(|record| text(record, "name"))
        .collect()
}

fn report(imported: &ImportSummary) -> Vec<String> {
    let counts = imported
        .counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| format!("{count} {kind}"));
    let mut lines = vec![format!(
        "imported records, with their ids: {}",
        counts.collect::<Vec<_>>().join(", ")
    )];
    lines.push(format!(
        "imported identity certificates: {}",
        imported.certificates
    ));
    lines.extend(names_line(
        "new enrollments (overkeep list enrollments)",
        &imported.enrolled,
    ));
    lines.extend(names_line(
        "routers that enroll again (enrollmentJwt of overkeep show edge-router)",
        &imported.routers,
    ));
    lines.extend(
        imported
            .left_out
            .iter()
            .map(|line| format!("left out: {}", shown(line))),
    );
    lines
}

/// Lines about what an import leaves out, with the names of the records.
fn notes(
    kinds: &[SourceKind],
    credentials: &ImportedCredentials,
    missing: &[String],
    dropped: Vec<String>,
) -> Vec<String> {
    let second: Vec<&str> = records_of(kinds, "identities")
        .filter(|record| is(record, "isMfaEnabled"))
        .map(|record| text(record, "name"))
        .collect();
    let unproven: Vec<&str> = records_of(kinds, "cas")
        .filter(|record| !is(record, "isVerified"))
        .map(|record| text(record, "name"))
        .collect();
    // Terminators of these two bindings are left out: their hosts create them again when they
    // connect.
    let fixed = credentials
        .terminators
        .iter()
        .filter(|record| text(record, "binding") != "edge" && text(record, "binding") != "tunnel");
    let fixed: Vec<String> = fixed
        .map(|record| {
            let service = record
                .pointer("/service/name")
                .and_then(serde_json::Value::as_str)
                .unwrap_or_default();
            format!("{service} at {}", text(record, "address"))
        })
        .collect();
    let mut roles = BTreeSet::new();
    for policy in records_of(kinds, "edge-router-policies") {
        let named = policy
            .get("edgeRouterRoles")
            .and_then(serde_json::Value::as_array)
            .into_iter()
            .flatten();
        roles.extend(named.filter_map(|role| role.as_str()?.strip_prefix('#')));
    }
    let opens = if roles.contains("all") || roles.is_empty() {
        None
    } else {
        let roles = roles.into_iter().collect::<Vec<_>>().join(",");
        let command =
            format!("overkeep update edge-router built-in --role-attributes built-in,{roles}");
        Some(format!(
            "no policy opens the built-in router to identities; {} gives it the roles of the others",
            shown(&command)
        ))
    };
    let lines = [
        opens,
        names_line("second factors to set up again", &second),
        names_line("CAs to verify (overkeep verify ca)", &unproven),
        names_line(
            "terminators to create again (overkeep create terminator)",
            &fixed,
        ),
        names_line("kinds that the other controller does not have", missing),
        credentials.unread.as_deref().map(shown),
        names_line(
            "identities that may lack an enrollment (overkeep create enrollment)",
            &without_enrollment(kinds, credentials),
        ),
    ];
    lines
        .into_iter()
        .flatten()
        .chain(dropped)
        .chain([
            "not imported: passwords of other users, sessions, history, times of creation"
                .to_owned(),
        ])
        .collect()
}
