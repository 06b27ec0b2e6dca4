//! The unused enrollment of a router in its response.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Enrollment, Lookup, Record, TypedLookup};
use crate::{clock::Timestamp, error::Result};

/// The enrollment of a router; empty once the router has enrolled.
#[derive(Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RouterEnrollment {
    #[serde(skip_serializing_if = "Option::is_none")]
    enrollment_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enrollment_jwt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enrollment_created_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enrollment_expires_at: Option<Timestamp>,
}

impl RouterEnrollment {
    /// The enrollment of the router that enrollments name in `field`.
    ///
    /// # Errors
    /// [`Error::Storage`](crate::error::Error::Storage) if it cannot be read.
    pub(crate) fn of(
        field: &'static str,
        router: &str,
        is_verified: bool,
        lookup: &dyn Lookup,
    ) -> Result<Self> {
        if is_verified {
            return Ok(Self::default());
        }
        let outstanding: Vec<Record<Enrollment>> = lookup.linked(field, router)?;
        Ok(outstanding
            .into_iter()
            .next()
            .map_or_else(Self::default, |record| Self {
                enrollment_token: Some(record.spec.token),
                enrollment_jwt: Some(record.spec.jwt),
                enrollment_created_at: Some(record.created_at),
                enrollment_expires_at: Some(record.spec.expires_at),
            }))
    }
}
