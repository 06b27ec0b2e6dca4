//! Asking the holders of client certificates to renew them: those of one identity, or everybody.

use model::{
    entity::{Authenticator, Id, Identity, Record, TypedLookup},
    error::Result,
};
use policy::change::authenticator;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{answer::Data, call::Call, extractor::Body};

/// The most certificates in one transaction, so that other writes need not wait long.
const BATCH: usize = 500;

/// Whose certificates should be renewed.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExtensionRequests {
    /// The identity; everybody if it is absent.
    #[serde(default)]
    identity_id: Option<Id<Identity>>,
    /// Whether the holders should also make new keys.
    #[serde(default)]
    roll_keys: bool,
}

/// How many holders were asked.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ExtensionsRequested {
    /// The number of certificates that should be renewed.
    certificates: usize,
}

/// POST /certificates/request-extend
pub(crate) async fn request(
    call: Call,
    Body(wanted): Body<ExtensionRequests>,
) -> Result<Data<ExtensionsRequested>> {
    let ExtensionRequests {
        identity_id,
        roll_keys,
    } = wanted;
    let renewable = |record: &Record<Authenticator>| record.is_issued_by_network();
    let ids = call.state.store.scan(move |tx| {
        let mut ids = Vec::new();
        match identity_id {
            Some(identity) => {
                let own = tx.linked::<Authenticator>("identity", tx.get(&identity)?.id.as_str())?;
                ids.extend(own.into_iter().filter(renewable).map(|record| record.id));
            }
            None => tx.each::<Authenticator>(|record| {
                ids.extend(renewable(&record).then_some(record.id));
                Ok(())
            })?,
        }
        Ok(ids)
    });
    let ids = ids.await?;
    let mut certificates = 0;
    for batch in ids.chunks(BATCH) {
        let batch = batch.to_vec();
        certificates += call
            .changes
            .run(move |change| {
                let mut count = 0;
                for id in &batch {
                    // A credential may have been deleted meanwhile.
                    if change
                        .find(id)?
                        .is_some_and(|record| record.is_issued_by_network())
                    {
                        authenticator::request_extension(change, id, roll_keys)?;
                        count += 1;
                    }
                }
                Ok(count)
            })
            .await?;
    }
    Ok(Data(ExtensionsRequested { certificates }))
}
