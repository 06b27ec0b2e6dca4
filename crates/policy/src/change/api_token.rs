//! API tokens. Every API token expires. Renewing one keeps its secret.

use std::time::Duration;

use model::{
    entity::{ApiToken, Record},
    error::Result,
};

use super::{Change, Lifecycle};

/// The lifetime of a token whose creator sets no end.
const LIFETIME: Duration = Duration::from_secs(90 * 86_400);

impl Lifecycle for ApiToken {
    fn creating(record: &mut Record<Self>, change: &Change<'_, '_>) -> Result<()> {
        record
            .spec
            .expires_at
            .get_or_insert_with(|| change.now().plus(LIFETIME));
        Ok(())
    }
}
