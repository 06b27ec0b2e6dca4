//! The number of records of each kind.

use std::collections::BTreeMap;

use model::{
    entity::{ApiToken, EdgeRouter, EndpointReport, Entity, Service, TransitRouter},
    error::Result,
};
use policy::change::KINDS;

use crate::{answer::Data, call::Call};

/// Names that clients expect for kinds that this controller does not have; their count is 0.
const ABSENT: [&str; 2] = ["eventualEvents", "revocations"];

/// GET /summary
pub(crate) async fn summary(call: Call) -> Result<Data<BTreeMap<String, i64>>> {
    call.state.store.read(|tx| {
        let mut counts: BTreeMap<String, u64> = ABSENT
            .into_iter()
            .map(|name| (name.to_owned(), 0))
            .collect();
        // Clients expect one number for both kinds of routers, and no number of kinds that only
        // this controller has.
        let others = [
            ApiToken::KIND,
            EdgeRouter::KIND,
            EndpointReport::KIND,
            TransitRouter::KIND,
        ];
        for kind in KINDS
            .iter()
            .map(|entry| entry.kind)
            .filter(|kind| !others.contains(kind))
        {
            counts.insert(kind.names(), tx.count_of(kind)?);
        }
        let edge_routers = tx.count::<EdgeRouter>()?;
        counts.insert(
            "routers".into(),
            edge_routers + tx.count::<TransitRouter>()?,
        );
        counts.insert("routers.edge".into(), edge_routers);
        counts.insert("services.edge".into(), tx.count::<Service>()?);
        Ok(Data(
            counts
                .into_iter()
                .map(|(name, count)| (name, i64::try_from(count).unwrap_or(i64::MAX)))
                .collect(),
        ))
    })
}
