//! Findings: problems of this controller on its host, in its network and in its records, each with
//! its remedy.

use maintenance::doctor::{
    self, DoctorFinding,
    network::{self, RecordFacts},
    records,
};
use model::{
    config::Config,
    entity::ExternalJwtSigner,
    error::{Error, Result},
};
use policy::expiring::{ExpiringKind, HORIZON, expiring};
use schemars::JsonSchema;
use serde::Deserialize;
use store::Progress;
use tokio::task::spawn_blocking;

use super::network::BooleanText;
use crate::{answer::Data, call::Call, extractor::Query};

/// Seconds in `retry-after` while the network is being checked for another caller.
const RETRY: u32 = 10;

/// Which checks are made.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Checks {
    /// `true`: also checks ports, advertised addresses, certificates and key sets. These checks
    /// connect to servers and take up to half a minute.
    #[serde(default)]
    network: Option<BooleanText>,
}

/// GET /doctor
pub(crate) async fn findings(
    call: Call,
    Query(Checks { network }): Query<Checks>,
) -> Result<Data<Vec<DoctorFinding>>> {
    let mut config = Config::clone(&call.state.config);
    // With the port that the system chose, if the configuration lets it choose one.
    config.advertise = call
        .state
        .instance
        .addresses
        .iter()
        .filter_map(|address| address.parse().ok())
        .collect();
    let with_network = if network == Some(BooleanText::True) {
        let permit = call.state.upkeep.network_checks.clone().try_acquire_owned();
        let permit = permit.map_err(|_| Error::Busy { retry_after: RETRY })?;
        Some((
            facts_of(&call).await,
            call.state.keystore.trusted_der(call.now.seconds()),
            permit,
        ))
    } else {
        None
    };
    let of_records = call.state.store.scan(records::findings).await;
    let of_records = of_records.unwrap_or_else(|error| {
        records::CHECKS
            .map(|check| DoctorFinding::unreadable(check, &error))
            .into()
    });
    // The thread holds the permit: it goes on if the caller is dropped.
    let found = spawn_blocking(move || {
        let mut found = doctor::findings(&config);
        found.extend(of_records);
        if let Some((facts, authorities, _permit)) = with_network {
            found.extend(network::address_findings(&config, Some(&authorities)));
            found.extend(network::record_findings(&config, facts.as_ref()));
        }
        found
    });
    found
        .await
        .map(Data)
        .map_err(|e| Error::Internal(format!("the checks of the host did not complete: {e}")))
}

/// What the checks need of the records. The error becomes a finding.
async fn facts_of(call: &Call) -> Result<RecordFacts> {
    let keystore = call.state.keystore.clone();
    let before = call.now.plus(HORIZON);
    let read = call.state.store.scan(move |tx| {
        let ending = expiring(tx, &keystore, None, before, &Progress::default())?;
        let mut signers = Vec::new();
        tx.each_readable::<ExternalJwtSigner>(|signer| {
            let endpoint = signer.spec.jwks_endpoint.filter(|_| signer.spec.enabled);
            signers.extend(endpoint.map(|endpoint| (signer.spec.name, endpoint)));
            Ok(())
        })?;
        Ok((ending, signers))
    });
    let (ending, signers) = read.await?;
    // Enrollments are left out because they are meant to end within hours.
    let ending = ending
        .into_iter()
        .filter(|item| item.kind != ExpiringKind::Enrollment);
    Ok(RecordFacts {
        ending: ending
            .map(|item| format!("{} {}", item.kind.as_str(), item.name))
            .collect(),
        signers,
    })
}
