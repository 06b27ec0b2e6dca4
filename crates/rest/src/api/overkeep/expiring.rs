//! Certificates and other items that expire soon, and a scheduled snapshot that is overdue.

use std::str::FromStr;

use model::{
    config::Span,
    error::{Error, Result},
};
use policy::expiring::{Expiring, ExpiringKind, expiring, overdue_snapshot};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::Progress;

use super::network::BooleanText;
use crate::{answer::Data, call::Call, extractor::Query};

/// The maximum number of items in an answer.
const LIMIT: usize = 1000;

/// How far to look ahead.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Within {
    /// A duration such as `30d`, which is the default. `0s`: what has ended already.
    #[serde(default)]
    within: Option<String>,
    /// `false` leaves enrollments out: most of them expire within hours.
    #[serde(default)]
    enrollments: Option<BooleanText>,
}

/// What ends within a duration or has ended, and a scheduled snapshot that is overdue by more than
/// one interval.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ExpiringList")]
pub(crate) struct ExpiringList {
    /// The number of all items.
    total: usize,
    /// The first 1000 of them, by the time when they end.
    items: Vec<Expiring>,
}

/// GET /expiring
pub(crate) async fn list(
    call: Call,
    Query(Within {
        within,
        enrollments,
    }): Query<Within>,
) -> Result<Data<ExpiringList>> {
    let text = within
        .as_deref()
        .filter(|text| !text.is_empty())
        .unwrap_or("30d");
    let span =
        Span::from_str(text).map_err(|error| Error::invalid("within", error.to_string(), text))?;
    let before = call.now.plus(span.duration());
    let (keystore, config, started, now) = (
        call.state.keystore.clone(),
        call.state.config.clone(),
        call.state.instance.started,
        call.now,
    );
    let found = call.state.store.scan(move |tx| {
        let snapshot = overdue_snapshot(&config.snapshots, started, now);
        expiring(tx, &keystore, snapshot, before, &Progress::default())
    });
    let mut items = found.await?;
    items.retain(|item| {
        enrollments != Some(BooleanText::False) || item.kind != ExpiringKind::Enrollment
    });
    let total = items.len();
    items.truncate(LIMIT);
    Ok(Data(ExpiringList { total, items }))
}
