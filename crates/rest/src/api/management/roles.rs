//! Lists of the role attributes in use. Entries are plain texts; filters call them `id`.

use model::error::{Error, Result};
use policy::access::PolicyEntityKind;
use query::{Symbol, Type, Value, Vocabulary, Window};
use store::Ids;

use crate::{
    call::Call,
    envelope::Pagination,
    extractor::Query,
    list_body::{StreamedList, joined_here},
    listing::Listing,
};

/// The only name in these lists.
struct Attribute<'a>(&'a str);

struct IdOnly;

impl Vocabulary for IdOnly {
    fn resolve(&self, name: &str) -> Option<(Symbol, Type)> {
        (name == "id").then_some((
            Symbol {
                field: 0,
                path: None,
            },
            Type::Text,
        ))
    }
    fn linked(&self, _: &Symbol) -> Option<&dyn Vocabulary> {
        None
    }
}

impl query::FilterTarget for Attribute<'_> {
    fn value(&self, _: &Symbol) -> Value<'_> {
        self.0.into()
    }
    fn linked(&self, _: &Symbol, _: &mut dyn FnMut(&dyn query::FilterTarget)) {}
}

async fn attributes(
    call: &Call,
    subject: PolicyEntityKind,
    listing: &Listing,
) -> Result<StreamedList<String>> {
    let text = listing.filter.as_deref().unwrap_or_default();
    let mut query =
        query::Query::parse(text, &IdOnly).map_err(|fault| Error::Filter(fault.to_string()))?;
    // Only the parameter `filter` is used. Without a limit in the filter, all entries are listed.
    query.limit.get_or_insert(query::Limit::None);
    let window = Window::new(&query, None, None);
    let mut found: Vec<String> = call.state.access.ask(|engine| {
        engine
            .role_attributes(subject)
            .map(ToString::to_string)
            .collect()
    });
    found.retain(|attribute| query.predicate.matches(&Attribute(attribute)));
    if query.sort.first().is_some_and(|sort| sort.descending) {
        found.reverse();
    }
    let total_count = found.len() as i64;
    let mut wanted = Ids::default();
    let most = window.limit.unwrap_or(usize::MAX);
    for attribute in found.iter().skip(window.offset).take(most) {
        wanted.push(attribute);
    }
    let pagination = Pagination {
        limit: window.shown_limit(),
        offset: window.offset as i64,
        total_count,
    };
    joined_here(
        call,
        vec!["id"],
        move |_| Ok((wanted.clone(), pagination)),
        |_, _, part| {
            while let Some(attribute) = part.next() {
                part.add_value(&attribute)?;
            }
            Ok(())
        },
    )
    .await
}

/// GET /identity-role-attributes
pub(crate) async fn of_identities(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<String>> {
    attributes(&call, PolicyEntityKind::Identity, &listing).await
}

/// GET /service-role-attributes
pub(crate) async fn of_services(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<String>> {
    attributes(&call, PolicyEntityKind::Service, &listing).await
}

/// GET /edge-router-role-attributes
pub(crate) async fn of_edge_routers(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<String>> {
    attributes(&call, PolicyEntityKind::EdgeRouter, &listing).await
}

/// GET /posture-check-role-attributes
pub(crate) async fn of_posture_checks(
    call: Call,
    Query(listing): Query<Listing>,
) -> Result<StreamedList<String>> {
    attributes(&call, PolicyEntityKind::PostureCheck, &listing).await
}
