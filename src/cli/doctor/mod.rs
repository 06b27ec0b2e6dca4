//! `overkeep doctor`: checks what the controller of this host needs, and names a remedy for each
//! problem. The command changes nothing.

mod running;

use std::ffi::OsString;

use clap::Args;
use maintenance::doctor::{self, DoctorFinding, network, records};
use model::{config::Config, hidden_text::shown};

use super::{
    CommandResult,
    admin::ControllerFlags,
    api::{login_without_file, output, transport::Transport},
};
use crate::admin_socket::Outcome;

/// The check whether a controller runs.
const CONTROLLER: &str = "controller";

/// Check what a controller on this host needs: files, disk, clock, limits, snapshots, ports,
/// advertised addresses, certificates, key sets, signers. Without a configuration file and
/// variables, a running controller is checked with the configuration that it runs with. After
/// overkeep login, the controller of the login is checked, unless there is a data file here. Exit
/// status: 0 nothing is wrong, 3 something is, 1 the configuration cannot be read.
#[derive(Args, Clone, Debug)]
pub(crate) struct Doctor {
    /// text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    output: String,
    #[command(flatten)]
    which: ControllerFlags,
}

impl Doctor {
    /// Checks everything.
    ///
    /// # Errors
    /// The reason, as one line.
    pub(crate) fn act(self, environment: &[(OsString, OsString)]) -> CommandResult {
        let config = self.which.config(environment)?;
        let findings = match login_without_file(&self.which, &config, environment)? {
            Some(context) => running::findings(&Transport::remote(context)?)?,
            None => all_findings(&config),
        };
        report(&findings, &self.output)
    }
}

/// The result of a command that checks something: its findings as `text` or `json`.
///
/// # Errors
/// They cannot be written as JSON.
pub(super) fn report(findings: &[DoctorFinding], form: &str) -> CommandResult {
    let lines = match form {
        "json" => vec![output::json(&findings)?],
        _ => findings.iter().flat_map(lines_of).collect(),
    };
    Ok(if findings.iter().all(|finding| finding.healthy) {
        Outcome::Done(lines)
    } else {
        Outcome::Problems(lines)
    })
}

/// The findings about the controller of a data file. A running controller makes those about its
/// records. It makes all of them if the configuration names nothing but the data file.
fn all_findings(config: &Config) -> Vec<DoctorFinding> {
    let controller = Transport::Host(config.data.clone());
    let Some(authorities) = running::authorities(&controller) else {
        let data = config.data.display();
        let detail = format!(
            "no controller answers beside {data}; addresses, certificates, key sets and signers were not checked"
        );
        let mend = "start the controller with overkeep run, or run this command as the user of the controller";
        let stopped = DoctorFinding::bad(CONTROLLER, detail, mend);
        return doctor::findings(config)
            .into_iter()
            .chain([stopped])
            .chain(network::address_findings(config, None))
            .collect();
    };
    let made = running::findings(&controller);
    let is_configured = *config
        != Config {
            data: config.data.clone(),
            ..Config::default()
        };
    if let (false, Ok(made)) = (is_configured, &made) {
        let answers = DoctorFinding::good(
            CONTROLLER,
            "it answers, and is checked with the configuration that it runs with",
        );
        return made.iter().cloned().chain([answers]).collect();
    }
    let answers = match &made {
        Ok(_) => DoctorFinding::good(
            CONTROLLER,
            format!("it answers beside {}", config.data.display()),
        ),
        Err(failure) => DoctorFinding::bad(
            CONTROLLER,
            format!(
                "it answers, and could not check its records: {}",
                failure.message()
            ),
            "run this command again",
        ),
    };
    let is_of_records =
        |check: &str| network::RECORD_CHECKS.contains(&check) || records::CHECKS.contains(&check);
    let of_records = made
        .unwrap_or_default()
        .into_iter()
        .filter(|finding| is_of_records(&finding.check));
    let own = doctor::findings(config)
        .into_iter()
        .chain([answers])
        .chain(network::address_findings(config, Some(&authorities)));
    own.chain(of_records).collect()
}

/// The lines about a finding, for people.
fn lines_of(finding: &DoctorFinding) -> Vec<String> {
    let word = if finding.healthy { "ok  " } else { "FAIL" };
    let first = format!("{word} {}: {}", finding.check, finding.detail);
    let mend = (!finding.healthy).then(|| format!("     {}", finding.mend));
    std::iter::once(first)
        .chain(mend)
        .map(|line| shown(&line))
        .collect()
}
