//! The history shows since when an identity has a right, and who caused it: every change that
//! grants or takes access is followed by a row with the number and names of the affected pairs,
//! whatever happens in between.

mod late;
mod rows;

use std::collections::BTreeSet;

use model::{
    clock::{Clock, Timestamp},
    entity::{
        AccessChange, Action, Author, EdgeRouter, EdgeRouterPolicy, Entity, HistoryClass,
        HistoryRow, Id, Identity, PairCount, Pairs, Record, Service, ServiceEdgeRouterPolicy,
        ServicePolicy, TypedLookup, builtin, history::Who,
    },
    error::{Error, Result},
};
use policy::{
    access::{Access, AccessAudit, Right},
    change::KINDS,
};
use store::{OpenStore, Retention, Store, Tx};

use redb::{Database, TableDefinition};

use serde_json::{Value as Json, json};

use tempfile::TempDir;

use crate::{
    events::watch,
    harness::{Base, Rng, TestServer, encoded, fresh, stores},
};

const ROLES: [&str; 3] = ["red", "green", "blue"];

/// The rights by ids: dial, bind, routers of identities, routers of services.
type Everything = [BTreeSet<(String, String)>; 4];

/// A store whose history is followed, and the rights after each of its changes.
struct World {
    store: Store,
    access: Access,
    audit: AccessAudit,
    rng: Rng,
    /// The last row of each change, and the rights at that time.
    states: Vec<(u64, Everything)>,
}

fn ids(of: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |n| format!("{of}{n}"))
}

impl World {
    fn on(opened: OpenStore, seed: u64) -> Self {
        let access = Access::following(&opened, Clock::system()).unwrap();
        let store = opened.start().unwrap();
        let audit = AccessAudit::following(&store).unwrap();
        let mut world = Self {
            store,
            access,
            audit,
            rng: Rng::new(seed),
            states: Vec::new(),
        };
        let default = builtin::auth_policy(Timestamp::from_millis(0));
        world.change(&Author::default(), |tx, _| {
            if tx.find(&default.id)?.is_none() {
                tx.insert(default)
            } else {
                Ok(())
            }
        });
        world
    }

    fn new(seed: u64) -> Self {
        Self::on(stores::of(KINDS).open_in_memory(), seed)
    }

    fn end(&self) -> u64 {
        self.store.read(|tx| tx.history_end()).unwrap()
    }

    /// A change by an author.
    fn change(
        &mut self,
        author: &Author,
        change: impl FnOnce(&Tx<'_>, &mut Rng) -> Result<()> + Send + 'static,
    ) {
        let mut rng = Rng::new(self.rng.below(1 << 40) as u64);
        self.store
            .by(author.clone())
            .write_blocking(move |tx| change(tx, &mut rng))
            .unwrap();
        self.states.push((self.end(), self.everything()));
    }

    /// A random change.
    fn any_change(&mut self, author: &Author) {
        self.change(author, |tx, rng| {
            (0..1 + rng.below(3)).try_for_each(|_| one(tx, rng))
        });
    }

    fn everything(&self) -> Everything {
        let mut all = Everything::default();
        let pair = |who: &str, what: &str| (who.to_owned(), what.to_owned());
        self.access.ask(|engine| {
            for identity in ids("i", 5) {
                for (n, right) in [Right::Dial, Right::Bind].into_iter().enumerate() {
                    all[n].extend(
                        ids("s", 4)
                            .filter(|service| engine.may(&identity, service, right))
                            .map(|service| pair(&identity, &service)),
                    );
                }
                all[2].extend(
                    engine
                        .edge_routers_of_identity(&identity)
                        .ids()
                        .map(|router| pair(&identity, router)),
                );
            }
            for service in ids("s", 4) {
                all[3].extend(
                    engine
                        .edge_routers_of_service(&service)
                        .ids()
                        .map(|router| pair(&service, router)),
                );
            }
        });
        all
    }

    /// The rows about access after a row.
    fn told(&self, behind: u64) -> Vec<HistoryRow> {
        let rows = self
            .store
            .read(|tx| tx.history_after(behind, usize::MAX))
            .unwrap();
        rows.into_iter()
            .filter(|row| row.action == Action::Access)
            .collect()
    }

    /// The rights when a row was the last one.
    fn at(&self, sequence: u64) -> &Everything {
        static NOTHING: Everything = [const { BTreeSet::new() }; 4];
        self.states
            .iter()
            .rev()
            .find(|(end, _)| *end <= sequence)
            .map_or(&NOTHING, |(_, state)| state)
    }

    /// The author of these rows; `several` if there are more.
    fn author(&self, first: u64, last: u64) -> Author {
        let rows = self
            .store
            .read(|tx| tx.history_after(first - 1, usize::MAX))
            .unwrap();
        let mut authors = rows
            .into_iter()
            .filter(|row| row.sequence <= last && row.action != Action::Access)
            .map(|row| row.by);
        let author = authors.next().unwrap();
        if authors.all(|other| other == author) {
            author
        } else {
            Author::several()
        }
    }

    /// Asserts that the rows about access describe all changes after a row, each once.
    fn hold(&self, mut seen: u64) {
        for row in self.told(seen) {
            let AccessChange {
                first,
                last,
                gained,
                lost,
                ..
            } = row.access.as_deref().unwrap();
            assert!(
                *first > seen && first <= last && *last < row.sequence,
                "{row:?}"
            );
            // No unreported change lies between the rows.
            assert_eq!(
                self.at(seen),
                self.at(first - 1),
                "between {seen} and {first}"
            );
            let end = self
                .states
                .iter()
                .map(|(end, _)| *end)
                .find(|end| end >= last)
                .unwrap();
            let (before, after) = (self.at(first - 1), self.at(end));
            assert_ne!(before, after, "{row:?}");
            assert_eq!(row.by, self.author(*first, *last));
            turned(gained, before, after);
            turned(lost, after, before);
            seen = end;
        }
        assert_eq!(self.at(seen), self.at(u64::MAX), "behind {seen}");
    }
}

/// Asserts that some pairs are those in `after` that are not in `before`.
fn turned(pairs: &Pairs, before: &Everything, after: &Everything) {
    let Pairs {
        dial,
        bind,
        identity_routers,
        service_routers,
    } = pairs;
    for (n, count) in [dial, bind, identity_routers, service_routers]
        .into_iter()
        .enumerate()
    {
        let new: Vec<_> = after[n].difference(&before[n]).collect();
        let Some(PairCount { pairs, who, what }) = count else {
            assert_eq!(new, [] as [&(String, String); 0]);
            continue;
        };
        assert_eq!(*pairs, new.len() as u64);
        let sides = [
            (who, new.iter().map(|pair| &pair.0).collect::<BTreeSet<_>>()),
            (what, new.iter().map(|pair| &pair.1).collect()),
        ];
        for (counted, ids) in sides {
            assert_eq!(counted.count, ids.len() as u64);
            assert!(counted.first.iter().map(|named| &named.id).eq(ids));
            assert!(
                counted
                    .first
                    .iter()
                    .all(|named| named.name == format!("name of {}", named.id)),
                "{counted:?}"
            );
        }
    }
}

fn roles(rng: &mut Rng) -> Vec<&'static str> {
    ROLES.into_iter().filter(|_| rng.below(2) == 0).collect()
}

/// A role list of a policy for subjects of kind `of`.
fn list<E: Entity>(tx: &Tx<'_>, of: &str, rng: &mut Rng) -> Vec<String> {
    let id = format!("{of}{}", rng.below(3));
    let there = tx.find(&Id::<E>::from_text(&*id)).unwrap().is_some();
    match rng.below(6) {
        0 => vec!["#all".into()],
        1 if there => vec![format!("@{id}")],
        _ => roles(rng).iter().map(|role| format!("#{role}")).collect(),
    }
}

/// Creates, changes or deletes something.
fn one(tx: &Tx<'_>, rng: &mut Rng) -> Result<()> {
    let n = rng.below(5);
    let with_roles = |rng: &mut Rng, more: Json| {
        let mut spec = json!({ "roleAttributes": roles(rng) });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        spec
    };
    match rng.below(6) {
        0 => {
            let more = json!({ "type": "Device", "isAdmin": false, "authPolicyId": "default" });
            turn::<Identity>(tx, &format!("i{n}"), with_roles(rng, more), rng)
        }
        1 => turn::<Service>(
            tx,
            &format!("s{}", n % 4),
            with_roles(rng, json!({ "encryptionRequired": true })),
            rng,
        ),
        2 => turn::<EdgeRouter>(tx, &format!("r{}", n % 3), with_roles(rng, json!({})), rng),
        of => {
            let semantic = ["AnyOf", "AllOf"][rng.below(2)];
            let [identities, services, routers] = [
                list::<Identity>(tx, "i", rng),
                list::<Service>(tx, "s", rng),
                list::<EdgeRouter>(tx, "r", rng),
            ];
            match of {
                3 => {
                    let right = ["Dial", "Bind"][rng.below(2)];
                    let spec = json!({ "type": right, "semantic": semantic, "identityRoles": identities, "serviceRoles": services });
                    turn::<ServicePolicy>(tx, &format!("p{n}"), spec, rng)
                }
                4 => {
                    let spec = json!({ "semantic": semantic, "identityRoles": identities, "edgeRouterRoles": routers });
                    turn::<EdgeRouterPolicy>(tx, &format!("p{}", n % 3), spec, rng)
                }
                _ => {
                    let spec = json!({ "semantic": semantic, "serviceRoles": services, "edgeRouterRoles": routers });
                    turn::<ServiceEdgeRouterPolicy>(tx, &format!("p{}", n % 3), spec, rng)
                }
            }
        }
    }
}

/// Writes a record, or deletes it if it exists.
fn turn<E: Entity>(tx: &Tx<'_>, id: &str, mut spec: Json, rng: &mut Rng) -> Result<()> {
    spec["name"] = format!("name of {id}").into();
    let spec: E = serde_json::from_value(spec).unwrap();
    match tx.find(&Id::<E>::from_text(id))? {
        None => tx.insert(Record::new(
            Id::from_text(id),
            Timestamp::from_millis(0),
            spec,
        )),
        Some(_) if rng.below(4) == 0 => tx.delete(&Id::<E>::from_text(id)),
        Some(old) => tx.put(Record { spec, ..old }),
    }
}

fn somebody(name: &str) -> Author {
    Author::remote(Some("127.0.0.1".into())).known_as(&Id::from_text(name), None)
}

fn history(filter: &str) -> String {
    format!("/overkeep/v1/history?filter={}", encoded(filter))
}
