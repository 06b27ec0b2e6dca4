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
        network::{self, Known},
    },
    store::Progress,
};

/// Certificates and other items that end within this time are findings.
const AHEAD: Duration = Duration::from_secs(30 * 86_400);

/// Which checks are made.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Checks {
    /// `true`: also checks ports, advertised addresses, certificates and key sets. These checks connect to servers and take up to half a minute.
    #[serde(default)]
    network: Option<BooleanText>,
}

/// GET /doctor
pub(crate) async fn findings(call: Call, Query(Checks { network }): Query<Checks>) -> Result<Shown<Vec<Finding>>> {
    let known = if network == Some(BooleanText::True) { Some(known(&call).await?) } else { None };
    let config = call.config.clone();
    let found = spawn_blocking(move || {
        let mut found = doctor::findings(&config);
        found.extend(known.iter().flat_map(|known| network::findings(&config, Some(known))));
        found
    });
    found.await.map(Shown).map_err(|e| Error::Internal(format!("the checks of the host did not complete: {e}")))
}

/// The facts about this controller that the checks need.
async fn known(call: &Call) -> Result<Known> {
    let keystore = call.keystore.clone();
    let authorities = keystore.trusted_der(call.now.seconds());
    let before = call.now.plus(AHEAD);
    let (ending, signers) = call
        .store
        .scan(move |tx| {
            let ending = expiring(tx, &keystore, None, before, &Progress::default())?;
            let mut signers = Vec::new();
            tx.each::<ExternalJwtSigner>(|signer| {
                let endpoint = signer.spec.jwks_endpoint.filter(|_| signer.spec.enabled);
                signers.extend(endpoint.map(|endpoint| (signer.spec.name, endpoint)));
                Ok(())
            })?;
            Ok((ending, signers))
        })
        .await?;
    let ending = ending.into_iter().filter(|item| item.kind != ExpiringKind::Enrollment);
    let ending = ending.map(|item| format!("{} {}", item.kind.as_str(), item.name)).collect();
    Ok(Known { authorities, ending: Ok(ending), signers: Ok(signers) })
}
