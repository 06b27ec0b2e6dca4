//! Changes of the history, combined so that each share gets one row about access, and the row of a
//! share.

use std::{collections::HashMap, convert::Infallible};

use model::entity::{
    AccessChange, Action, Author, EdgeRouter, Entity, HistoryEntry, HistoryRow, Id, Identity,
    Named, PairCount, Pairs, PostureCheck, Service, TypedLookup,
};
use store::Read;

use super::{AccessDiff, Difference, PolicyEntityKind, engine_roles::subject, history_rows::kinds};

/// Changes that are combined in one row.
pub(super) struct Share {
    pub(super) rows: Vec<HistoryRow>,
    changes: u64,
    by: Author,
}

/// Groups rows by change. If there are more than `limit` changes, several are combined, if possible
/// those of one author.
pub(super) fn shares(rows: Vec<HistoryRow>, limit: usize) -> Vec<Share> {
    let one = |row: HistoryRow| Share {
        changes: 1,
        by: row.by.clone(),
        rows: vec![row],
    };
    let mut changes = joined(
        rows.into_iter().map(one).collect(),
        usize::MAX,
        |one, next| one.change() == next.change(),
    );
    changes.iter_mut().for_each(|change| change.changes = 1);
    let together = changes.len().div_ceil(limit);
    let shares = joined(changes, together, |one, next| one.by == next.by);
    let together = shares.len().div_ceil(2 * limit);
    joined(shares, together, |_, _| true)
}

/// Joins neighbours that fit, at most `limit` together.
fn joined(shares: Vec<Share>, limit: usize, fit: impl Fn(&Share, &Share) -> bool) -> Vec<Share> {
    let (mut joined, mut count) = (Vec::<Share>::new(), 0);
    for next in shares {
        match joined
            .last_mut()
            .filter(|last| count < limit && fit(last, &next))
        {
            Some(last) => {
                last.changes += next.changes;
                last.rows.extend(next.rows);
                if last.by != next.by {
                    last.by = Author::several();
                }
                count += 1;
            }
            None => {
                joined.push(next);
                count = 1;
            }
        }
    }
    joined
}

impl Share {
    fn change(&self) -> Option<u64> {
        self.rows.last().map(HistoryRow::change)
    }

    /// The row of the record that the first change was made to: its deletion comes after those of
    /// its dependents, its creation before theirs.
    fn subject(&self) -> Option<&HistoryRow> {
        let first = self.rows.first()?;
        let last = self
            .rows
            .iter()
            .take_while(|row| row.change() == first.change())
            .last()?;
        Some(if last.action == Action::Delete {
            last
        } else {
            first
        })
    }

    /// The access that the changes gave and took, from what undoing them would give and take.
    pub(super) fn gains(
        &self,
        back: &Difference,
        name: impl Fn(PolicyEntityKind, &str) -> Named,
    ) -> AccessChange {
        let Ok(Difference {
            dial,
            bind,
            identity_routers,
            service_routers,
        }) = back.named(|subject, id| Ok::<_, Infallible>(Some(name(subject, id))));
        let [dial, bind, identity_routers, service_routers] =
            [dial, bind, identity_routers, service_routers].map(|AccessDiff { gained, lost }| {
                let any = |count: PairCount<Named>| (count.pairs > 0).then_some(count);
                (any(lost), any(gained))
            });
        AccessChange {
            first: self.rows.first().map_or(0, HistoryRow::change),
            last: self.rows.last().map_or(0, |row| row.sequence),
            changes: self.changes,
            gained: Pairs {
                dial: dial.0,
                bind: bind.0,
                identity_routers: identity_routers.0,
                service_routers: service_routers.0,
            },
            lost: Pairs {
                dial: dial.1,
                bind: bind.1,
                identity_routers: identity_routers.1,
                service_routers: service_routers.1,
            },
        }
    }

    /// The row to write; `None` if access did not change.
    pub(super) fn entry(self, gains: AccessChange) -> Option<(Author, HistoryEntry)> {
        let subject = self.subject().filter(|_| !gains.is_none())?;
        let entry = HistoryEntry {
            action: Action::Access,
            kind: kinds().find(|kind| *kind == subject.kind)?,
            id: subject.id.clone(),
            name: subject.name.clone(),
            before: None,
            after: None,
            access: Some(Box::new(gains)),
        };
        Some((self.by, entry))
    }
}

/// The names of subjects, by kind and id.
pub(super) type Names = HashMap<(PolicyEntityKind, String), String>;

/// The names in the rows, because their records may be deleted by now.
pub(super) fn names(rows: &[HistoryRow]) -> Names {
    rows.iter()
        .filter_map(|row| Some(((subject(&row.kind)?, row.id.clone()), row.name.clone()?)))
        .collect()
}

pub(super) fn named(tx: &Read<'_>, names: &Names, subject: PolicyEntityKind, id: &str) -> Named {
    fn stored<E: Entity>(tx: &Read<'_>, id: &str, name: fn(&E) -> &String) -> Option<String> {
        // A record that cannot be read has no name; the damage is reported elsewhere.
        tx.find(&Id::from_text(id))
            .ok()
            .flatten()
            .map(|record| name(&record.spec).clone())
    }
    let known = names.get(&(subject, id.to_owned())).cloned();
    let name = known.or_else(|| match subject {
        PolicyEntityKind::Identity => stored::<Identity>(tx, id, |identity| &identity.name),
        PolicyEntityKind::Service => stored::<Service>(tx, id, |service| &service.name),
        PolicyEntityKind::EdgeRouter => stored::<EdgeRouter>(tx, id, |router| &router.name),
        PolicyEntityKind::PostureCheck => stored::<PostureCheck>(tx, id, |check| &check.name),
    });
    Named {
        id: id.into(),
        name: name.unwrap_or_default(),
    }
}
