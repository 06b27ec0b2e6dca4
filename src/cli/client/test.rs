//! `overkeep test`: what is wrong on the way from this machine to a service.

use clap::Args;
use client::{StepFinding, diagnose};
use maintenance::doctor::DoctorFinding;

use super::{identities::IdentityFlags, runtime};
use crate::cli::{doctor::report, failure::CommandResult};

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
        let findings: Vec<_> = findings.into_iter().map(finding).collect();
        report(&findings, &self.output)
    }
}

/// A step as a finding, which is shown as those of `doctor` are.
fn finding(step: StepFinding) -> DoctorFinding {
    DoctorFinding {
        check: step.check.into(),
        healthy: step.healthy,
        detail: step.detail,
        mend: step.mend.to_owned(),
    }
}
