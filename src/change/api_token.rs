//! API tokens. Every API token expires. Renewing one keeps its secret.

use std::time::Duration;

use super::{Change, Lifecycle};
use crate::{
    entity::{ApiToken, Record},
    error::Result,
};

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
