//! Deletion of a record and what depends on it. All records that refer to it, directly or not, are
//! found by the index first, then deleted. Where they may be very many, a tombstone is written
//! instead (`tx/tombstone.rs`).

use std::collections::BTreeSet;

use super::{
    edit::Edit,
    tombstone::{MAX_PER_TRANSACTION, MAX_PER_VALUE},
    write::Tx,
};
use crate::registry::DeleteRule;
use model::{
    entity::{Entity, Id, Kind, Lookup, Record, missing},
    error::{Error, Result},
};

/// The greatest number of referring records that an error names.
const SHOWN: usize = 100;

/// A record: its kind's place in the registry and its id.
type Node = (usize, String);

/// The effects of a deletion.
#[derive(Default)]
struct Plan {
    /// The records to delete, in the order found, so that each comes after one that it refers to. A
    /// list instead of recursion, because a chain may be thousands long.
    deletions: Vec<Node>,
    known: BTreeSet<Node>,
    /// Which record (first) drops its reference to which (second).
    clear: BTreeSet<(Node, Node)>,
    /// The tombstones to write: the place of the kind, the field, and the value.
    tombstones: Vec<(usize, &'static str, String)>,
    /// The records that prevent the deletion, and the field of the reference.
    held: Vec<(&'static str, Node)>,
}

impl Plan {
    fn add_deletion(&mut self, node: Node) {
        if self.known.insert(node.clone()) {
            self.deletions.push(node);
        }
    }
}

impl Tx<'_> {
    /// Deletes a record, and applies the rules of the references that lead to it.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Referenced`] if a reference with
    /// [`OnDelete::Restrict`](model::entity::OnDelete::Restrict) leads to it from a record that
    /// stays.
    pub fn delete<E: Entity>(&self, id: &Id<E>) -> Result<()> {
        self.delete_record(
            self.read()
                .load::<E>(id.as_str())?
                .ok_or_else(|| missing(E::KIND, id))?,
        )
    }

    /// [`Tx::delete`] of a record that this transaction has read and has not changed since; it is
    /// not read again.
    ///
    /// # Errors
    /// As in [`Tx::delete`].
    pub fn delete_record<E: Entity>(&self, record: Record<E>) -> Result<()> {
        let id = record.id.to_string();
        let deletion = Edit::delete(record, self.is_by_system())?;
        self.whole(|| delete_with(self, E::KIND, &id, || self.apply(deletion)))
    }
}

/// Deletes a stored record of a kind that is known at run time only. Records that refer to it are
/// deleted first.
pub(crate) fn delete(tx: &Tx<'_>, kind: Kind, id: &str) -> Result<()> {
    delete_with(tx, kind, id, || {
        tx.remove(tx.read().context.registry.place(kind)?, id)
    })
}

/// Deletes a record and what depends on it; `remove` deletes the record itself, last.
fn delete_with(
    tx: &Tx<'_>,
    kind: Kind,
    id: &str,
    remove: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let registry = &tx.read().context.registry;
    let plan = plan(tx, (registry.place(kind)?, id.to_owned()))?;
    let mut held = plan.held.iter().filter(|(_, by)| !plan.known.contains(by));
    if let Some((field, first)) = held.next() {
        let others = held.filter(|(other, _)| other == field).map(|(_, by)| by);
        let by = [first]
            .into_iter()
            .chain(others)
            .take(SHOWN)
            .map(|(_, id)| id.clone())
            .collect();
        return Err(Error::Referenced { field, by });
    }
    for ((from, id), (to, target)) in plan
        .clear
        .iter()
        .filter(|(from, _)| !plan.known.contains(from))
    {
        tx.clear_reference(*from, id, registry.entry(*to)?.kind, target)?;
    }
    for (place, id) in plan.deletions.iter().skip(1).rev() {
        // A dependent record that is damaged is kept, so that the damage stays visible.
        tx.read().unless_damaged(tx.remove(*place, id))?;
    }
    remove()?;
    plan.tombstones
        .into_iter()
        .try_for_each(|(place, field, value)| {
            tx.write_tombstone(registry.entry(place)?.kind, field, &value)
        })
}

fn plan(tx: &Tx<'_>, first: Node) -> Result<Plan> {
    let registry = &tx.read().context.registry;
    let mut plan = Plan::default();
    plan.add_deletion(first);
    let mut at = 0;
    while let Some(node) = plan.deletions.get(at).cloned() {
        at += 1;
        for (place, edge) in registry.edges_to(registry.entry(node.0)?.kind) {
            let entry = registry.entry(place)?;
            if edge.rule == DeleteRule::Cascade && entry.ends_by.contains(&edge.field) {
                let limit = if plan.deletions.len() < MAX_PER_TRANSACTION {
                    MAX_PER_VALUE
                } else {
                    0
                };
                match tx.read().few_ids(entry.kind, edge.field, &node.1, limit)? {
                    Some(few) => {
                        for id in few {
                            plan.add_deletion((place, id));
                        }
                    }
                    None => plan.tombstones.push((place, edge.field, node.1.clone())),
                }
                continue;
            }
            for id in tx.ids(entry.kind, edge.field, &node.1)? {
                match edge.rule {
                    DeleteRule::Cascade => plan.add_deletion((place, id)),
                    DeleteRule::Clear => {
                        plan.clear.insert(((place, id), node.clone()));
                    }
                    DeleteRule::Restrict => plan.held.push((edge.field, (place, id))),
                }
            }
        }
    }
    Ok(plan)
}
