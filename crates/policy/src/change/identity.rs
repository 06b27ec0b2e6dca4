//! Identities: which cannot be deleted, what is fixed in a router's identity, and what disabling
//! ends.

use model::{
    clock::Timestamp,
    entity::{ApiSession, ClaimedKind, Id, Identity, IdentityKind, Record, TypedLookup},
    error::{Error, Result},
};

use super::{Change, Lifecycle, ids::short_id};

impl Lifecycle for Identity {
    fn new_id() -> String {
        short_id()
    }

    /// The requested type is ignored: identities of type Router are only made with their router.
    fn creating(record: &mut Record<Self>, _: &Change<'_, '_>) -> Result<()> {
        if record.state.kind != IdentityKind::Router {
            record.spec.claimed_kind = ClaimedKind::Default;
        }
        Ok(())
    }

    fn edited(old: &Record<Self>, new: &mut Record<Self>, _: &Change<'_, '_>) -> Result<()> {
        let (router, claimed) = (
            old.state.kind == IdentityKind::Router,
            new.spec.claimed_kind,
        );
        if claimed.kind() != old.state.kind {
            return Err(Error::invalid(
                "typeId",
                "cannot be changed",
                claimed.kind().as_str(),
            ));
        }
        if new.state.is_default_admin && !new.spec.is_admin {
            // A record of an earlier release may lack the flag, although the identity was an
            // administrator.
            if old.spec.is_admin {
                return Err(Error::invalid(
                    "isAdmin",
                    "the default administrator is always an administrator",
                    "false",
                ));
            }
            new.spec.is_admin = true;
        }
        if router && new.spec.name != old.spec.name {
            return Err(Error::invalid(
                "name",
                "must be the name of the router",
                &new.spec.name,
            ));
        }
        Ok(())
    }

    fn deleting(record: &Record<Self>, _: &Change<'_, '_>) -> Result<()> {
        if record.state.is_default_admin {
            return Err(Error::NotDeletable(
                "the default administrator cannot be deleted".into(),
            ));
        }
        if record.state.kind == IdentityKind::Router {
            return Err(Error::NotDeletable(
                "the identity of a router is deleted with its router".into(),
            ));
        }
        Ok(())
    }

    fn is_kept(record: &Record<Self>) -> bool {
        record.state.is_default_admin || record.state.kind == IdentityKind::Router
    }
}

/// Disables an identity until a time, or until it is enabled, and ends all its sessions.
///
/// # Errors
/// There is no such identity.
pub fn disable(change: &Change<'_, '_>, id: &Id<Identity>, until: Option<Timestamp>) -> Result<()> {
    let mut identity = change.get(id)?;
    (identity.state.disabled_at, identity.state.disabled_until) = (Some(change.now()), until);
    change.put(identity)?;
    change.delete_linked::<ApiSession>("identity", id.as_str())
}

/// Enables an identity.
///
/// # Errors
/// There is no such identity.
pub fn enable(change: &Change<'_, '_>, id: &Id<Identity>) -> Result<()> {
    let mut identity = change.get(id)?;
    (identity.state.disabled_at, identity.state.disabled_until) = (None, None);
    change.put(identity)
}
