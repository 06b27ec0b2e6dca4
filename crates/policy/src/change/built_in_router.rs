//! The record of the built-in edge router, and the policies that open it to everybody in a new
//! file.

use model::{
    clock::Timestamp,
    entity::{
        Document, EdgeRouter, EdgeRouterPolicy, Entity, Id, Lookup, Record, Roles, Semantic,
        ServiceEdgeRouterPolicy, TransitRouter, TypedLookup, edge_router::State,
    },
    error::Result,
};
use store::{Store, Tx};

/// Creates the record if the file has none.
///
/// # Errors
/// The file cannot be read or written.
pub fn establish(store: &Store) -> Result<()> {
    let id = Id::<EdgeRouter>::from_text(EdgeRouter::BUILT_IN);
    if store.read(|tx| tx.find(&id))?.is_some() {
        return Ok(());
    }
    store.write_blocking(|tx| add(tx, tx.now()))
}

/// Adds the record and the policies to a new file.
///
/// # Errors
/// The store rejects a record.
pub(crate) fn add_open(tx: &Tx<'_>, now: Timestamp) -> Result<()> {
    add(tx, now)?;
    let everybody = || roles("#all");
    let router = || roles(&format!("#{}", EdgeRouter::BUILT_IN));
    let policy = EdgeRouterPolicy {
        name: "built-in-router-for-all-identities".into(),
        semantic: Semantic::AnyOf,
        edge_router_roles: router(),
        identity_roles: everybody(),
    };
    tx.insert(Record::new(
        Id::from_text(super::ids::long_id()),
        now,
        policy,
    ))?;
    let policy = ServiceEdgeRouterPolicy {
        name: "built-in-router-for-all-services".into(),
        semantic: Semantic::AnyOf,
        edge_router_roles: router(),
        service_roles: everybody(),
    };
    tx.insert(Record::new(
        Id::from_text(super::ids::long_id()),
        now,
        policy,
    ))
}

fn add(tx: &Tx<'_>, now: Timestamp) -> Result<()> {
    let spec = EdgeRouter {
        name: free(tx)?,
        app_data: Document::default(),
        cost: 0,
        disabled: false,
        is_tunneler_enabled: false,
        no_traversal: false,
        role_attributes: roles(EdgeRouter::BUILT_IN),
    };
    let mut record = Record::new(Id::from_text(EdgeRouter::BUILT_IN), now, spec);
    record.state = State {
        is_verified: true,
        ..State::default()
    };
    tx.insert(record)
}

/// The first name of `built-in`, `built-in-2`, ... that no router has.
fn free(tx: &Tx<'_>) -> Result<String> {
    let (mut name, mut number) = (EdgeRouter::BUILT_IN.to_owned(), 1_u32);
    while tx.any(EdgeRouter::KIND, "name", &name)? || tx.any(TransitRouter::KIND, "name", &name)? {
        number = number.saturating_add(1);
        name = format!("{}-{number}", EdgeRouter::BUILT_IN);
    }
    Ok(name)
}

fn roles(role: &str) -> Roles {
    std::iter::once(role.to_owned()).collect()
}
