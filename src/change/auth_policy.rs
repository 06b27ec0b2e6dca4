//! Auth policies: the default one stays.

use super::{Change, Lifecycle};
use crate::{
    entity::{AuthPolicy, Identity, Record, identity::DEFAULT_AUTH_POLICY},
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

    fn is_kept(record: &Record<Self>) -> bool {
        record.id.as_str() == DEFAULT_AUTH_POLICY
    }
}
