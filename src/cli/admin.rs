//! `overkeep admin` and `overkeep pki`: commands for the owner of the host. A running controller
//! performs the commands; if none runs, this process opens the data file.

use std::{ffi::OsString, net::IpAddr, path::PathBuf};

use clap::{Args, Subcommand};
use model::config::{self, Config};
use uuid::Uuid;

use super::{
    api::context::LoginContext,
    authority_files::AuthorityFiles,
    failure::{CommandError, CommandResult, warn},
    progress::{Bar, with_progress},
    run::{ResolvedConfig, Sources},
    starting::await_controller,
};
use crate::{
    admin_socket::{Command, MAX_LINK_MINUTES, Outcome, socket},
    controller,
};

/// The flags that name a controller.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ControllerFlags {
    /// Read the configuration from this file [env: OVERKEEP_CONFIG; default: none is read]
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    /// The controller's data file [env: OVERKEEP_DATA; default: overkeep.redb]
    #[arg(long, value_name = "FILE", global = true)]
    data: Option<String>,
    /// File with the passphrase that seals the keys in the data file [env:
    /// OVERKEEP_PASSPHRASE_FILE; default: the keys are not sealed]
    #[arg(long, value_name = "FILE", global = true)]
    passphrase_file: Option<String>,
}

/// Regain access: list administrators, reset a password, lift a lockout, log in with a one-time
/// link.
#[derive(Args, Clone, Debug)]
pub(crate) struct Admin {
    #[command(subcommand)]
    what: AdminCommand,
    #[command(flatten)]
    which: ControllerFlags,
}

#[derive(Subcommand, Clone, Debug)]
enum AdminCommand {
    /// Show every administrator
    List,
    /// Set the password of a user name, end the sessions opened with the old one, and enable the
    /// identity if it is disabled
    ResetPassword {
        username: String,
        /// Change the identity's auth policy to allow passwords if it does not; this affects
        /// everybody who has the policy
        #[arg(long)]
        allow_passwords: bool,
        /// Read the new password from this file [default: generate one and print it]
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// Enable the identity of a user name
    Unlock { username: String },
    /// Print a link that logs an administrator in on the page of the controller, once and only from
    /// this host
    Link {
        /// The administrator, by id or name [default: the default administrator]
        identity: Option<String>,
        /// The address of another machine, which alone may use the link [default: this host]
        #[arg(long, value_name = "ADDRESS")]
        from: Option<IpAddr>,
        /// For how many minutes it can be used
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=MAX_LINK_MINUTES as i64))]
        minutes: u32,
    },
}

/// Show and renew keys and certificates.
#[derive(Args, Clone, Debug)]
pub(crate) struct Pki {
    #[command(subcommand)]
    what: PkiCommand,
    #[command(flatten)]
    which: ControllerFlags,
}

#[derive(Subcommand, Clone, Debug)]
enum PkiCommand {
    /// Show every certificate of the controller with its expiry date, and the enrollment tokens
    /// that are no longer usable
    Status,
    /// Replace the server's key, and list the enrollment tokens that become unusable
    RenewKey,
    /// Adopt the authority of another controller. Clients that enrolled there can then log in here
    Adopt {
        #[command(flatten)]
        authority: AuthorityFiles,
    },
}

impl Admin {
    /// Runs the command and returns its output.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let config = self.which.config(environment)?;
        match self.what {
            AdminCommand::List => run_command(&config, Command::ListAdministrators),
            AdminCommand::Link {
                identity,
                from,
                minutes,
            } => run_command(
                &config,
                Command::Link {
                    identity,
                    from,
                    minutes,
                },
            ),
            AdminCommand::Unlock { username } => run_command(&config, Command::Unlock { username }),
            AdminCommand::ResetPassword {
                username,
                allow_passwords,
                password_file,
            } => {
                let given = config::password("--password-file", password_file.as_deref())
                    .map_err(|e| e.to_string())?;
                // Has a character of each class that an auth policy may require.
                let password = given
                    .as_deref()
                    .cloned()
                    .unwrap_or_else(|| format!("Ok1-{}", Uuid::new_v4().simple()));
                let mut outcome = run_command(
                    &config,
                    Command::ResetPassword {
                        username,
                        password: password.clone(),
                        allow_passwords,
                    },
                )?;
                if let Outcome::Done(lines) = &mut outcome {
                    lines.extend(given.is_none().then(|| format!("password: {password}")));
                }
                Ok(outcome)
            }
        }
    }
}

impl Pki {
    /// Runs the command and returns its output.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let config = self.which.config(environment)?;
        match self.what {
            PkiCommand::Status => run_command(&config, Command::ListCertificates),
            PkiCommand::RenewKey => run_command(&config, Command::RenewKey),
            PkiCommand::Adopt { authority } => {
                let missing = || CommandError::Flag("--signing-cert: is missing".into());
                run_command(&config, authority.command()?.ok_or_else(missing)?)
            }
        }
    }
}

impl ControllerFlags {
    /// The controller with this configuration file and data file, as far as they are given.
    pub(crate) fn of(config: Option<PathBuf>, data: Option<PathBuf>) -> Self {
        Self {
            config,
            data: data.map(|path| path.to_string_lossy().into_owned()),
            passphrase_file: None,
        }
    }

    /// The controller with this data file.
    pub(crate) fn with_passphrase(
        config: Option<PathBuf>,
        data: &std::path::Path,
        passphrase: Option<PathBuf>,
    ) -> Self {
        let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
        Self {
            config,
            data: Some(text(data)),
            passphrase_file: passphrase.as_deref().map(text),
        }
    }

    /// Whether flags name a data file or configuration of this host.
    pub(crate) fn is_named(&self) -> bool {
        self.config.is_some() || self.data.is_some()
    }

    /// The controller's configuration.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn config(
        &self,
        environment: &[(OsString, OsString)],
    ) -> Result<Config, CommandError> {
        let flags = [
            ("data", self.data.clone()),
            ("passphrase-file", self.passphrase_file.clone()),
        ];
        let flags = flags
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect();
        let ResolvedConfig { config, warnings } = Sources {
            file: self.config.clone(),
            environment,
            flags,
        }
        .config()?;
        for warning in &warnings {
            warn(warning);
        }
        Ok(config)
    }
}

/// Runs a command in the running controller; `None` if none runs.
pub(crate) fn ask_controller(
    config: &Config,
    command: &Command,
) -> Option<Result<Outcome, socket::CommandFailure>> {
    let mut bar = Bar::default();
    let socket = socket::beside(&config.data);
    let mut ask = || socket::ask(&socket, command, &mut |done, total| bar.show(done, total));
    ask().or_else(|| {
        await_controller(&config.data);
        ask()
    })
}

/// Runs a command in the running controller, or else on the data file.
pub(crate) fn run_command(config: &Config, command: Command) -> CommandResult {
    if let Some(outcome) = ask_controller(config, &command) {
        return Ok(outcome?);
    }
    // A missing data file must not be created.
    config
        .data
        .metadata()
        .map_err(|error| format!("data: {}: {error}{}", config.data.display(), login_hint()))?;
    let host = controller::host(config, &command).map_err(|e| e.to_string())?;
    let outcome = with_progress(|watch| host.act(command, watch)).map_err(|e| e.to_string());
    host.store.close();
    Ok(outcome?)
}

/// What is said of a missing data file if there is a login: perhaps the command was meant for its
/// controller.
pub(crate) fn login_hint() -> String {
    let login = LoginContext::in_environment(&[]).ok().flatten();
    let hint = |login: LoginContext| {
        format!(
            "; this command works on the host of the controller, not over the login to {}",
            login.url
        )
    };
    login.map(hint).unwrap_or_default()
}
