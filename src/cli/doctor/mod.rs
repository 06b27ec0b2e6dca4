//! `overkeep doctor`: checks what the controller of this host needs, and names a remedy for each problem. The command changes nothing.

mod network;

use std::ffi::OsString;

use clap::Args;

use super::{
    CommandResult, Failure,
    admin::ControllerFlags,
    api::{output::plain, transport::Transport},
};
use crate::{
    admin_socket::{Outcome, socket},
    config::Config,
    maintenance::doctor::{self, Finding},
};

/// Check what a controller on this host needs: files, disk, clock, limits, snapshots, ports, advertised addresses, certificates, key sets.
/// Without a configuration file and variables, a running controller is checked with the configuration that it runs with.
/// Exit status: 0 nothing is wrong, 3 something is, 1 the configuration cannot be read.
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
        let controller = Transport::Host(socket::beside(&config.data));
        // Without a configuration, the checks use that of the running controller.
        let is_unconfigured = config == Config { data: config.data.clone(), ..Config::default() };
        let running = is_unconfigured.then(|| network::running_findings(&controller)).flatten();
        let findings = match running {
            Some(findings) => findings,
            None => doctor::findings(&config).into_iter().chain(network::findings(&config, &controller)).collect(),
        };
        let is_good = findings.iter().all(|finding| finding.healthy);
        let lines = match self.output.as_str() {
            "json" => vec![serde_json::to_string_pretty(&findings).map_err(Failure::of)?],
            _ => findings.iter().flat_map(lines_of).collect(),
        };
        Ok(if is_good { Outcome::Done(lines) } else { Outcome::Problems(lines) })
    }
}

/// The lines about a finding, for people.
fn lines_of(finding: &Finding) -> Vec<String> {
    let word = if finding.healthy { "ok  " } else { "FAIL" };
    let first = format!("{word} {}: {}", finding.check, finding.detail);
    let mend = (!finding.healthy).then(|| format!("     {}", finding.mend));
    // Details quote names of records, which may hold control characters.
    std::iter::once(first).chain(mend).map(|line| plain(&line)).collect()
}
