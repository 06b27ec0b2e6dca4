//! The generic operations, written once for every kind.

use model::{
    entity::{Entity, FilterNames, Id, TypedLookup, filterable, unmatchable},
    error::{Error, Result},
};
use policy::{
    access::{self, Access, Engine, MatchRule, PolicyEntityKind},
    change::{Change, Draft, Lifecycle},
};
use schemars::JsonSchema;
use serde::Deserialize;
use store::{ListPlan, Read, Scope};

use super::{
    answer::{CreatedLocation, Edited, NoData, Tagged},
    body,
    cache::json_cache::CachedJson,
    call::Call,
    change_mode::{ChangeMode, ChangeOutcome},
    envelope::{Detail, Pagination, detail as seen},
    extractor::{Create, IfMatch, Patch, Query, Replace},
    fixed_members,
    list_body::{self, StreamedList, joined_here},
    list_part::Part,
    listing::Listing,
};

/// Selects records by their role attributes.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RoleFilter {
    /// `#attribute` or `@id`; may be repeated.
    #[serde(default)]
    pub role_filter: Vec<String>,
    /// Whether a record needs all attributes (`AllOf`, the default) or one of them (`AnyOf`).
    #[serde(default)]
    pub role_semantic: Option<String>,
}

impl RoleFilter {
    /// Whether a filter is given.
    pub(crate) fn is_some(&self) -> bool {
        !self.role_filter.is_empty()
    }

    /// The matching ids in ascending order; `None` without a filter. The attributes are combined by
    /// `role_semantic`; every record with a given id matches.
    ///
    /// # Errors
    /// An entry is neither `#attribute` nor `@id`, or the semantic is unknown.
    pub(crate) fn ids(
        &self,
        access: &Access,
        subject: PolicyEntityKind,
    ) -> Result<Option<Vec<String>>> {
        let semantic = match self.role_semantic.as_deref().unwrap_or("AllOf") {
            word if word.eq_ignore_ascii_case("AllOf") => MatchRule::AllOf,
            word if word.eq_ignore_ascii_case("AnyOf") => MatchRule::AnyOf,
            other => return Err(Error::invalid("semantic", "must be AllOf or AnyOf", other)),
        };
        if self.role_filter.is_empty() {
            return Ok(None);
        }
        if let Some(bad) = self
            .role_filter
            .iter()
            .find(|role| !role.starts_with(['#', '@']))
        {
            return Err(Error::invalid(
                "roleFilter",
                "must be #attribute or @id",
                bad,
            ));
        }
        let ids = |engine: &mut Engine| {
            engine
                .matching(subject, semantic, &self.role_filter)
                .in_order()
                .map(|(_, id)| id.to_string())
                .collect()
        };
        Ok(Some(access.ask(ids)))
    }
}

/// A list with a filter by role attributes.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub(crate) struct RoleListing {
    #[serde(flatten)]
    listing: Listing,
    #[serde(flatten)]
    roles: RoleFilter,
}

/// GET /{kind}, for kinds with role attributes
pub(crate) async fn list_by_roles<E: Entity>(
    call: Call,
    Query(wanted): Query<RoleListing>,
) -> Result<StreamedList<Detail<E::View>>> {
    let ids = match access::subject(E::KIND.name) {
        Some(subject) => wanted.roles.ids(&call.state.access, subject)?,
        None => None,
    };
    list_records::<E>(call, wanted.listing, ids).await
}

/// The listed records, of all or of the given ids, as their kind shows them.
async fn list_records<E: Entity>(
    call: Call,
    listing: Listing,
    ids: Option<Vec<String>>,
) -> Result<StreamedList<Detail<E::View>>> {
    let is_admin = call.caller.as_ref().is_some_and(|caller| caller.is_admin());
    let (query, window) = listing.query(FilterNames::<E>::of_whole(is_admin))?;
    let plan = ListPlan::<E>::of(query, window, ids.map_or(Scope::All, Scope::Ids));
    let texts = call.state.caches.json.clone();
    let find = move |tx: &Read<'_>| {
        plan.ids(tx)
            .map(|(ids, total)| (ids, Pagination::of(window, total)))
    };
    let write = move |tx: &Read<'_>, at, part: &mut Part<'_>| texts.write::<E>(tx, at, part);
    joined_here(&call, filterable::<E>().collect(), find, write).await
}

/// GET /{kind}
pub(crate) async fn list<E: Entity>(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Detail<E::View>>> {
    list_records::<E>(call, listing, None).await
}

/// GET /{kind}/{id}
pub(crate) async fn detail<E: Entity>(
    call: Call,
    id: Id<E>,
) -> Result<Tagged<CachedJson<Detail<E::View>>>> {
    let at = call.state.caches.json.now();
    call.state
        .store
        .read(|tx| call.state.caches.json.detail(&id, tx, at))
}

/// POST /{kind}
pub(crate) async fn create<E: Lifecycle + JsonSchema>(
    call: Call,
    Create(draft): Create<E>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<CreatedLocation>> {
    let create = move |change: &Change<'_, '_>| {
        let unmatchable = unmatchable::members(draft.spec.unmatchable());
        change
            .create(draft)
            .map(|record| CreatedLocation::new(&record.id).naming(unmatchable))
    };
    mode.run(&call, create).await
}

/// PUT /{kind}/{id}
pub(crate) async fn replace<E: Lifecycle + JsonSchema>(
    call: Call,
    id: Id<E>,
    known: IfMatch,
    Replace {
        body, is_strict, ..
    }: Replace<E>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<Edited>> {
    let replace = move |change: &Change<'_, '_>| {
        let stored = change.get(&id)?;
        known.check(&stored)?;
        let mut edited = Edited::default();
        let replaced = |stored: &_| {
            let stored = body::write(stored)?;
            edited.ignored = fixed_members::ignored(&stored, &body, E::FIXED, is_strict)?;
            let draft: Draft<E> = body::read(body::replaced(&stored, body, E::FIXED, E::KEPT))?;
            edited.unmatchable = unmatchable::members(draft.spec.unmatchable());
            Ok(Some(draft))
        };
        change.edit_record(stored, replaced)?;
        Ok(edited)
    };
    mode.run(&call, replace).await
}

/// PATCH /{kind}/{id}
pub(crate) async fn patch<E: Lifecycle + JsonSchema>(
    call: Call,
    id: Id<E>,
    known: IfMatch,
    patch: Patch<E>,
    mode: ChangeMode,
) -> Result<ChangeOutcome<Edited>> {
    let patch = move |change: &Change<'_, '_>| {
        let stored = change.get(&id)?;
        known.check(&stored)?;
        let mut edited = Edited::default();
        let patched = |stored: &_| {
            let stored = body::write(stored)?;
            edited.ignored =
                fixed_members::ignored(&stored, &patch.body, patch.fixed, patch.is_strict)?;
            let patched = body::patched(stored, &patch.body, &patch.schema, patch.fixed);
            let draft: Option<Draft<E>> = patched.map(body::read_whole).transpose()?;
            edited.unmatchable = draft
                .iter()
                .flat_map(|draft| unmatchable::members(draft.spec.unmatchable()))
                .collect();
            Ok(draft)
        };
        change.edit_record(stored, patched)?;
        Ok(edited)
    };
    mode.run(&call, patch).await
}

/// DELETE /{kind}/{id}
pub(crate) async fn delete<E: Lifecycle>(
    call: Call,
    id: Id<E>,
    known: IfMatch,
    mode: ChangeMode,
) -> Result<ChangeOutcome<NoData>> {
    let delete = move |change: &Change<'_, '_>| {
        let stored = change.get(&id)?;
        known.check(&stored)?;
        change.delete_record(stored).map(|()| NoData)
    };
    mode.run(&call, delete).await
}

/// GET /{parents}/{id}/{children}: the children that refer to the parent, or that the parent refers
/// to. Empty for an unknown parent.
pub(crate) async fn linked<P: Entity, C: Entity>(
    call: Call,
    id: Id<P>,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Detail<C::View>>> {
    let naming = C::REFERENCES
        .iter()
        .find(|reference| reference.kind == P::KIND)
        .map(|reference| reference.field);
    let named = P::REFERENCES
        .iter()
        .find(|reference| reference.kind == C::KIND);
    let wanted = move |tx: &Read<'_>| {
        Ok(match (naming, named) {
            (Some(field), _) => Scope::Having {
                field,
                value: id.into_text(),
            },
            (None, Some(reference)) => Scope::Ids(
                tx.find(&id)?
                    .iter()
                    .flat_map(|parent| (reference.ids)(parent))
                    .map(str::to_owned)
                    .collect(),
            ),
            (None, None) => Scope::Ids(Vec::new()),
        })
    };
    list_body::listed(&call, listing, FilterNames::ALL, wanted, |tx, record| {
        seen::<C>(record, tx)
    })
    .await
}

/// GET /{parents}/{id}/{children}: the children that policies connect with the parent.
pub(crate) async fn related<P: Entity, C: Entity>(
    call: Call,
    id: Id<P>,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<Detail<C::View>>> {
    let ids = access::related(&call.state.access, P::KIND, id.as_str(), C::KIND);
    list_body::listed(
        &call,
        listing,
        FilterNames::ALL,
        |_| Ok(Scope::Ids(ids)),
        |tx, record| seen::<C>(record, tx),
    )
    .await
}
