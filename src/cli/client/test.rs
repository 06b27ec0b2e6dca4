//! `overkeep test`: what is wrong on the way from this machine to a service.

use std::iter::once;

use clap::Args;
use client::{StepFinding, diagnose};
use model::hidden_text::shown;

use super::{identities::IdentityFlags, runtime};
use crate::{
    admin_socket::Outcome,
    cli::{api::output, failure::CommandResult},
};

/// Test the way to a service: the controller, the log-in, the rights, and each edge router, with
/// what a host of this program measures. Exit status: 0 nothing is wrong, 3 something is.
#[derive(Args, Clone, Debug)]
pub(crate) struct Test {
    #[command(flatten)]
    identities: IdentityFlags,
    /// Reach the terminator with this identity
    #[arg(long, value_name = "NAME")]
    identity: Option<String>,
    /// text or json
    #[arg(short, long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    output: String,
    /// The service
    service: String,
}

impl Test {
    /// Tests the way.
    ///
    /// # Errors
    /// The file of the identity cannot be read.
    pub(crate) fn act(self) -> CommandResult {
        let (identity, options) = self.identities.only()?;
        let runtime = runtime()?;
        let instance = self.identity.as_deref();
        let diagnosing = diagnose(&identity, options, &self.service, instance);
        let findings = runtime.block_on(diagnosing);
        runtime.shutdown_background();
        let is_good = findings.iter().all(|finding| finding.healthy);
        let lines = match self.output.as_str() {
            "json" => vec![output::json(&findings)?],
            _ => findings.iter().flat_map(lines_of).collect(),
        };
        Ok(if is_good {
            Outcome::Done(lines)
        } else {
            Outcome::Problems(lines)
        })
    }
}

/// The lines about a finding, for people.
fn lines_of(finding: &StepFinding) -> Vec<String> {
    let word = if finding.healthy { "ok  " } else { "FAIL" };
    let first = format!("{word} {}: {}", finding.check, finding.detail);
    let mend = (!finding.healthy).then(|| format!("     {}", finding.mend));
    once(first).chain(mend).map(|line| shown(&line)).collect()
}
