//! Auth policies: the default one cannot be deleted.

use model::{
    entity::{AuthPolicy, Identity, Record, identity::DEFAULT_AUTH_POLICY},
    error::{Error, Result},
};

use super::{Change, Lifecycle};

impl Lifecycle for AuthPolicy {
    /// The default policy applies to identities that name none. If identities name it, the store
    /// rejects the deletion instead.
    fn deleting(record: &Record<Self>, change: &Change<'_, '_>) -> Result<()> {
        let default = record.id.as_str() == DEFAULT_AUTH_POLICY;
        if default
            && !change
                .read()
                .any::<Identity>("authPolicyId", DEFAULT_AUTH_POLICY)?
        {
            return Err(Error::NotDeletable(
                "the policy of identities that name none cannot be deleted".into(),
            ));
        }
        Ok(())
    }

    fn is_kept(record: &Record<Self>) -> bool {
        record.id.as_str() == DEFAULT_AUTH_POLICY
    }
}
