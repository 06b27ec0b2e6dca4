//! The list of services as one identity sees it: rights, filter, order and page. The client
//! interface shows the list of the caller. The management interface shows that of the caller or of
//! a named identity.

use std::sync::{Arc, OnceLock};

use model::{
    entity::{FilterNames, Identity, Record, Service, filterable},
    error::{Error, Result},
};
use policy::access::{Access, PolicyEntityKind};
use store::{Ids, ListPlan, Read, Scope};

use crate::{
    api::common::service::{ViewPlan, Viewer},
    call::Call,
    crud::RoleFilter,
    envelope::Pagination,
    list_body::{StreamedList, joined, joined_here},
    list_part::Part,
    listing::Listing,
};

/// A request for a list of services.
pub(crate) struct ServiceListRequest {
    pub listing: Listing,
    pub roles: RoleFilter,
    /// The filterable names.
    pub names: &'static FilterNames<Service>,
    /// The config types to show, by id or name; `all` for every type.
    pub(crate) types: Vec<String>,
    /// The identity whose view is shown, by id or name; empty or absent for that of the caller.
    pub as_identity: Option<String>,
    /// Whether the members that depend on the viewer are left out.
    pub hides_usage: bool,
}

/// Answers a list of services: an administrator sees all, another identity those that it may use.
///
/// # Errors
/// The identity does not exist, a filter is invalid, or those of [`joined`].
pub(crate) async fn list<T>(call: &Call, wanted: ServiceListRequest) -> Result<StreamedList<T>> {
    let (access, posture, caller, own) = (
        call.state.access.clone(),
        call.state.posture.clone(),
        call.caller()?.clone(),
        call.evidence()?,
    );
    let planned = Arc::new(OnceLock::new());
    let (json_cache, plan, engine) = (
        call.state.caches.json.clone(),
        planned.clone(),
        access.clone(),
    );
    // Otherwise all services of an identity are listed in memory, which takes long without reading
    // rows.
    let is_quick = wanted.as_identity.is_none()
        && !wanted.roles.is_some()
        && (caller.is_admin() || wanted.listing.is_of_all());
    let find = move |tx: &Read<'_>| {
        let ServiceListRequest {
            listing,
            roles,
            names,
            types,
            as_identity,
            hides_usage,
        } = &wanted;
        let other = as_identity
            .as_deref()
            .filter(|name| !name.is_empty())
            .map(|name| named(tx, name))
            .transpose()?;
        let (identity, evidence) = match other {
            Some(other) => {
                let evidence = posture
                    .evidence(other.id.as_str(), None)
                    .seen_by(&other.state.sdk_info);
                (other, evidence)
            }
            None => (caller.identity.clone(), own.clone()),
        };
        let by_roles = roles.ids(&access, PolicyEntityKind::Service)?;
        let view =
            ViewPlan::new(tx, &access, evidence, identity, types)?.hiding_usage(*hides_usage);
        let page = usable_services(
            tx,
            &access,
            planned.get_or_init(|| view),
            listing,
            names,
            by_roles,
        )?;
        Ok(page)
    };
    let write = move |tx: &Read<'_>, at, part: &mut Part<'_>| match plan.get() {
        Some(view) => Viewer::new(tx, &engine, view).write(&json_cache, at, part),
        None => Err(Error::Internal(
            "a list is written before its records are found".into(),
        )),
    };
    let fields = filterable::<Service>().collect();
    if is_quick {
        joined_here(call, fields, find, write).await
    } else {
        joined(call, fields, find, write).await
    }
}

/// Finds the services of the list: rights first, then filter, order and page.
fn usable_services(
    tx: &Read<'_>,
    access: &Access,
    view: &ViewPlan,
    listing: &Listing,
    names: &FilterNames<Service>,
    by_roles: Option<Vec<String>>,
) -> Result<(Ids, Pagination)> {
    let (query, window) = listing.query(names)?;
    if view.is_restricted() && by_roles.is_none() && listing.is_of_all() {
        let (ids, total) = view.some_usable(access, window);
        return Ok((ids, Pagination::of(window, total)));
    }
    let usable = view.is_restricted().then(|| view.usable(access));
    let ids = match (usable, by_roles) {
        (Some(usable), Some(ids)) => Some(
            ids.into_iter()
                .filter(|id| usable.binary_search(id).is_ok())
                .collect(),
        ),
        (some, others) => some.or(others),
    };
    let (ids, total) =
        ListPlan::<Service>::of(query, window, ids.map_or(Scope::All, Scope::Ids)).ids(tx)?;
    Ok((ids, Pagination::of(window, total)))
}

/// An identity by id or name.
fn named(tx: &Read<'_>, name: &str) -> Result<Record<Identity>> {
    let found = tx.find_named::<Identity>(name)?;
    found.ok_or_else(|| Error::invalid("asIdentity", "no identity has this id or name", name))
}
