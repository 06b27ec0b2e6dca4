//! Edge routers: the enrollment of a new one, and the identity and policy of its tunneler.

use model::{
    entity::{
        ClaimedKind, EdgeRouter, EdgeRouterPolicy, Enrollment, Id, Identity, IdentityKind, Record,
        Semantic, Tags, TypedLookup, edge_router::State,
    },
    error::{Error, Result},
};

use super::{Change, Lifecycle, enrollment, ids::short_id};

impl Lifecycle for EdgeRouter {
    fn new_id() -> String {
        short_id()
    }

    fn created(record: &Record<Self>, change: &Change<'_, '_>) -> Result<()> {
        enroll(record, change)?;
        if record.spec.is_tunneler_enabled {
            add_tunneler(record, change)
        } else {
            Ok(())
        }
    }

    fn edited(old: &Record<Self>, new: &mut Record<Self>, change: &Change<'_, '_>) -> Result<()> {
        if new.is_built_in() && new.spec.is_tunneler_enabled {
            return Err(Error::invalid(
                "isTunnelerEnabled",
                "the built-in router has no tunneler",
                "true",
            ));
        }
        match (old.spec.is_tunneler_enabled, new.spec.is_tunneler_enabled) {
            (false, true) => add_tunneler(new, change),
            (true, false) => remove_tunneler(old, change),
            (true, true) if old.spec.name != new.spec.name => rename_tunneler(new, change),
            _ => Ok(()),
        }
    }

    fn deleting(record: &Record<Self>, change: &Change<'_, '_>) -> Result<()> {
        if record.is_built_in() {
            return Err(Error::NotDeletable(
                "the built-in router cannot be deleted; disable it, or start with router.enabled = false".into(),
            ));
        }
        if record.spec.is_tunneler_enabled {
            remove_tunneler(record, change)
        } else {
            Ok(())
        }
    }

    fn is_kept(record: &Record<Self>) -> bool {
        record.is_built_in()
    }
}

/// Issues the one-time token by which the router gets its certificates.
fn enroll(router: &Record<EdgeRouter>, change: &Change<'_, '_>) -> Result<()> {
    let expires_at = change.now().plus(change.context.router_enrollment);
    let wanted = change.sign(Enrollment::of_edge_router(router.id.clone()), expires_at)?;
    enrollment::issue(wanted, Tags::default(), change).map(|_| ())
}

/// Removes a router's certificates and issues a new token; the previous token becomes invalid.
///
/// # Errors
/// There is no such router, or it is the built-in one.
pub fn re_enroll(change: &Change<'_, '_>, id: &Id<EdgeRouter>) -> Result<()> {
    let mut router = change.get(id)?;
    if router.is_built_in() {
        return Err(Error::NotUpdatable(
            "the built-in router needs no enrollment".into(),
        ));
    }
    change.delete_linked::<Enrollment>("edgeRouter", id.as_str())?;
    router.state = State::default();
    enroll(&router, change)?;
    change.put(router)
}

/// Creates the identity of a router's tunneler, with the same id and name, and a policy that lets
/// it use its router.
fn add_tunneler(router: &Record<EdgeRouter>, change: &Change<'_, '_>) -> Result<()> {
    let (id, now) = (router.id.as_str(), change.now());
    let mut identity = Record::new(Id::from_text(id), now, Identity::named(&router.spec.name));
    identity.state.kind = IdentityKind::Router;
    identity.spec.claimed_kind = ClaimedKind::Router;
    change.insert(identity)?;
    let roles = || std::iter::once(format!("@{id}")).collect();
    let policy = EdgeRouterPolicy {
        name: format!("edge-router-{id}-system"),
        semantic: Semantic::AnyOf,
        edge_router_roles: roles(),
        identity_roles: roles(),
    };
    let mut policy = Record::new(Id::from_text(id), now, policy);
    policy.is_system = true;
    // Not through `Change`: only the store's rules apply to the policy, because the router that it
    // names may not be stored yet.
    change.tx.insert(policy)
}

fn remove_tunneler(router: &Record<EdgeRouter>, change: &Change<'_, '_>) -> Result<()> {
    let id = router.id.as_str();
    let policy = change.find(&Id::<EdgeRouterPolicy>::from_text(id))?;
    policy.map_or(Ok(()), |policy| change.tx.delete_record(policy))?;
    let identity = change.find(&Id::<Identity>::from_text(id))?;
    identity.map_or(Ok(()), |identity| change.tx.delete_record(identity))
}

fn rename_tunneler(router: &Record<EdgeRouter>, change: &Change<'_, '_>) -> Result<()> {
    let mut identity = change.get(&Id::<Identity>::from_text(router.id.as_str()))?;
    identity.spec.name.clone_from(&router.spec.name);
    change.put(identity)
}
