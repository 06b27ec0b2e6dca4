//! Findings: problems of this controller on its host and in its network, each with its remedy.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::network::BooleanText;
use crate::{
    entity::ExternalJwtSigner,
    error::{Error, Result},
    expiring::{ExpiringKind, expiring},
    http::{answer::Shown, call::Call, extractor::Query},
    maintenance::doctor::{
        self, Finding,
        network::{self, ControllerFacts},
    },
    store::Progress,
};

/// Certificates and other items that end within this time are findings.
const AHEAD: Duration = Duration::from_secs(30 * 86_400);

/// Seconds in `retry-after` while the network is being checked for another caller.
const RETRY: u32 = 10;

/// Which checks are made.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Checks {
    /// `true`: also checks ports, advertised addresses, certificates and key sets. These checks connect to servers and take up to half a minute.
    #[serde(default)]
    network: Option<BooleanText>,
}

/// GET /doctor
pub(crate) async fn findings(call: Call, Query(Checks { network }): Query<Checks>) -> Result<Shown<Vec<Finding>>> {
    let config = call.config.clone();
    let with_network = if network == Some(BooleanText::True) {
        let permit = call.network_checks.clone().try_acquire_owned();
        let permit = permit.map_err(|_| Error::Busy { retry_after: RETRY })?;
        Some((facts_of(&call).await, permit))
    } else {
        None
    };
    // The thread holds the permit: it goes on if the caller is dropped.
    let found = spawn_blocking(move || {
        let mut found = doctor::findings(&config);
        found.extend(with_network.iter().flat_map(|(facts, _permit)| network::findings(&config, Some(facts))));
        found
    });
    found.await.map(Shown).map_err(|e| Error::Internal(format!("the checks of the host did not complete: {e}")))
}

/// The facts about this controller that the checks need. What cannot be read becomes a finding.
async fn facts_of(call: &Call) -> ControllerFacts {
    let keystore = call.keystore.clone();
    let authorities = keystore.trusted_der(call.now.seconds());
    let before = call.now.plus(AHEAD);
    let read = call.store.scan(move |tx| {
        let ending = expiring(tx, &keystore, None, before, &Progress::default())?;
        let mut signers = Vec::new();
        tx.each_readable::<ExternalJwtSigner>(|signer| {
            let endpoint = signer.spec.jwks_endpoint.filter(|_| signer.spec.enabled);
            signers.extend(endpoint.map(|endpoint| (signer.spec.name, endpoint)));
            Ok(())
        })?;
        Ok((ending, signers))
    });
    match read.await {
        Ok((ending, signers)) => {
            let ending = ending.into_iter().filter(|item| item.kind != ExpiringKind::Enrollment);
            let ending = ending.map(|item| format!("{} {}", item.kind.as_str(), item.name)).collect();
            ControllerFacts { authorities, ending: Ok(ending), signers: Ok(signers) }
        }
        Err(error) => ControllerFacts { authorities, ending: Err(error.to_string()), signers: Err(error.to_string()) },
    }
}
