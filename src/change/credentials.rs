//! Auth policies and sessions: little happens with them beyond being written; what ends with them says `entity/` by references.

use super::{Change, Lifecycle, lifecycle::session_id};
use crate::{
    entity::{ApiSession, AuthPolicy, Identity, Mfa, Record, Session, identity::DEFAULT_AUTH_POLICY},
    error::{Error, Result},
};

impl Lifecycle for AuthPolicy {
    /// The policy of those who name none stays. While identities name it, the store says so.
    fn deleting(record: &Record<Self>, change: &Change<'_, '_>) -> Result<()> {
        let default = record.id.as_str() == DEFAULT_AUTH_POLICY;
        if default && !change.any::<Identity>("authPolicyId", DEFAULT_AUTH_POLICY)? {
            return Err(Error::NotDeletable("the policy of identities that name none cannot be deleted".into()));
        }
        Ok(())
    }
}

impl Lifecycle for ApiSession {
    fn new_id() -> String {
        session_id()
    }
}

impl Lifecycle for Mfa {}

impl Lifecycle for Session {
    fn new_id() -> String {
        session_id()
    }
}
