//! What changes would give and take: the difference between the engine as it is and as it would be.
//!
//! Few subjects can be concerned: those that change themselves, and those on one side of a policy that changes, whichever side has fewer.
//! What they reach is evaluated before and after, at once for all that are alike, and some at a time, so that nobody waits long.

use super::{
    Engine, News, PolicyKind, Right, Subject,
    book::{Book, Class},
};
use crate::entity::{Counted, Tally};
use roaring::RoaringBitmap;
use schemars::JsonSchema;
use serde::Serialize;
use std::{collections::HashMap, sync::Arc};

/// What changes would give and take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Preview")]
pub struct Difference<N = Arc<str>> {
    /// Identities, and services that policies let them dial.
    pub dial: Turn<N>,
    /// Identities, and services that policies let them bind.
    pub bind: Turn<N>,
    /// Identities, and edge routers that they may use.
    pub identity_routers: Turn<N>,
    /// Services, and edge routers that they may be reached over.
    pub service_routers: Turn<N>,
}

/// What turns one way and the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "PreviewTurn")]
pub struct Turn<N> {
    /// What may be used then and may not now.
    pub gained: Tally<N>,
    /// What may be used now and may not then.
    pub lost: Tally<N>,
}

impl Difference {
    /// The same, with something else for each id.
    ///
    /// # Errors
    /// The first.
    pub fn named<N, E>(&self, name: impl Fn(Subject, &str) -> Result<N, E>) -> Result<Difference<N>, E> {
        let counted = |subject, Counted { count, first }: &Counted<Arc<str>>| {
            let first: Result<Vec<N>, E> = first.iter().map(|id| name(subject, id)).collect();
            Ok(Counted { count: *count, first: first? })
        };
        let tally = |of: &Relation, Tally { pairs, who, what }: &Tally<Arc<str>>| {
            Ok(Tally { pairs: *pairs, who: counted(of.who, who)?, what: counted(of.what, what)? })
        };
        let turn = |of: &Relation, turn: &Turn<Arc<str>>| Ok(Turn { gained: tally(of, &turn.gained)?, lost: tally(of, &turn.lost)? });
        Ok(Difference {
            dial: turn(&DIAL, &self.dial)?,
            bind: turn(&BIND, &self.bind)?,
            identity_routers: turn(&IDENTITY_ROUTERS, &self.identity_routers)?,
            service_routers: turn(&SERVICE_ROUTERS, &self.service_routers)?,
        })
    }
}

/// So many groups are evaluated before others are let in between.
pub(super) const SLICE: usize = 32;

/// How far a preview has come.
pub(super) enum Step {
    Going,
    Done(Box<Difference>),
    /// The engine has changed since the beginning.
    Stale,
}

/// A difference in the making.
pub(super) struct Preview {
    news: Vec<News>,
    generation: u64,
    parts: [Part; 4],
}

/// What is found out about one relation.
struct Part {
    relation: &'static Relation,
    /// Who is looked at; whatever else is looked at from the other side leaves them out.
    whos: RoaringBitmap,
    /// Still to be evaluated: subjects that reach the same before and the same after, and whether they are those who may.
    groups: Vec<(bool, RoaringBitmap)>,
    gained: Pairs,
    lost: Pairs,
}

#[derive(Default)]
struct Pairs {
    count: u64,
    who: RoaringBitmap,
    what: RoaringBitmap,
}

/// Who may use what.
struct Relation {
    kind: PolicyKind,
    right: Option<Right>,
    who: Subject,
    what: Subject,
}

static DIAL: Relation = Relation { kind: PolicyKind::Service, right: Some(Right::Dial), who: Subject::Identity, what: Subject::Service };
static BIND: Relation = Relation { kind: PolicyKind::Service, right: Some(Right::Bind), who: Subject::Identity, what: Subject::Service };
static IDENTITY_ROUTERS: Relation =
    Relation { kind: PolicyKind::EdgeRouter, right: None, who: Subject::Identity, what: Subject::EdgeRouter };
static SERVICE_ROUTERS: Relation =
    Relation { kind: PolicyKind::ServiceEdgeRouter, right: None, who: Subject::Service, what: Subject::EdgeRouter };

impl Engine {
    /// What changes would give and take, with at most so many ids of each side.
    pub fn preview(&mut self, news: &[News], most: usize) -> Difference {
        let mut preview = Preview::new(self, news);
        // Trying many changes takes its time too.
        let slice = SLICE.max(preview.news.len());
        loop {
            // Nobody else has the engine, so that this ends with an answer.
            if let Step::Done(difference) = preview.step(self, slice, most) {
                return *difference;
            }
        }
    }
}

impl Preview {
    /// Finds out who is concerned.
    pub fn new(engine: &mut Engine, news: &[News]) -> Self {
        let news = in_order(news);
        let part = |relation| Part::new(engine, &news, relation);
        let parts = [&DIAL, &BIND, &IDENTITY_ROUTERS, &SERVICE_ROUTERS].map(part);
        Self { generation: engine.generation, parts, news }
    }

    /// Evaluates so many groups more; in the end, names those found.
    pub fn step(&mut self, engine: &mut Engine, slice: usize, most: usize) -> Step {
        if engine.generation != self.generation {
            return Step::Stale;
        }
        if let Some(part) = self.parts.iter_mut().find(|part| !part.groups.is_empty()) {
            part.evaluate(engine, &self.news, slice);
            return Step::Going;
        }
        let lost = self.parts.each_ref().map(|part| part.relation.tally(engine, &part.lost, most));
        let trial = engine.as_if(&self.news);
        let gained = self.parts.each_ref().map(|part| part.relation.tally(&trial, &part.gained, most));
        let ([dial, bind, of_identities, of_services], [no_dial, no_bind, not_of_identities, not_of_services]) = (gained, lost);
        let turn = |gained, lost| Turn { gained, lost };
        Step::Done(Box::new(Difference {
            dial: turn(dial, no_dial),
            bind: turn(bind, no_bind),
            identity_routers: turn(of_identities, not_of_identities),
            service_routers: turn(of_services, not_of_services),
        }))
    }
}

/// Each subject and policy once, as it is in the end, and those that go behind the others.
fn in_order(news: &[News]) -> Vec<News> {
    let about = |news: &News| match news {
        News::Subject { subject, id, .. } => (Some(*subject), None, id.clone()),
        News::Policy { kind, id, .. } => (None, Some(*kind), id.clone()),
    };
    let last: HashMap<_, &News> = news.iter().map(|news| (about(news), news)).collect();
    let mut last: Vec<News> = last.into_values().cloned().collect();
    last.sort_by_key(|news| matches!(news, News::Subject { roles: None, .. }));
    last
}

impl Part {
    fn new(engine: &mut Engine, news: &[News], relation: &'static Relation) -> Self {
        let (whos, whats) = relation.concerned(engine, news);
        let of_whos = relation.alike(engine, news, relation.who, &whos).into_iter().map(|rows| (true, rows));
        let of_whats = relation.alike(engine, news, relation.what, &whats).into_iter().map(|rows| (false, rows));
        let groups = of_whos.chain(of_whats).collect();
        Self { relation, whos, groups, gained: Pairs::default(), lost: Pairs::default() }
    }

    fn evaluate(&mut self, engine: &mut Engine, news: &[News], slice: usize) {
        let some = self.groups.split_off(self.groups.len().saturating_sub(slice));
        let reach = |engine: &Engine| -> Vec<RoaringBitmap> {
            some.iter().map(|(is_who, rows)| self.relation.reach(engine, *is_who, rows.min())).collect()
        };
        let before = reach(engine);
        let after = reach(&engine.as_if(news));
        for (((is_who, rows), before), after) in some.iter().zip(before).zip(after) {
            let (mut gained, mut lost) = (&after - &before, before - after);
            if !is_who {
                gained -= &self.whos;
                lost -= &self.whos;
            }
            self.gained.add(*is_who, rows, gained);
            self.lost.add(*is_who, rows, lost);
        }
    }
}

impl Pairs {
    /// Pairs of each of `rows` with each of `reached`.
    fn add(&mut self, is_who: bool, rows: &RoaringBitmap, reached: RoaringBitmap) {
        if reached.is_empty() {
            return;
        }
        self.count += rows.len() * reached.len();
        let (near, far) = if is_who { (&mut self.who, &mut self.what) } else { (&mut self.what, &mut self.who) };
        *near |= rows;
        *far |= reached;
    }
}

impl Relation {
    fn book<'e>(&self, engine: &'e Engine) -> &'e Book {
        engine.book(self.kind)
    }

    /// Those whose reach can be another: together they are in every pair that comes or goes.
    fn concerned(&self, engine: &mut Engine, news: &[News]) -> (RoaringBitmap, RoaringBitmap) {
        let look = |engine: &Engine| -> Vec<[RoaringBitmap; 2]> { news.iter().map(|news| self.touched(engine, news)).collect() };
        let before = look(engine);
        let after = look(&engine.as_if(news));
        let (mut whos, mut whats) = (RoaringBitmap::new(), RoaringBitmap::new());
        for ((news, [who, what]), [who_then, what_then]) in news.iter().zip(before).zip(after) {
            let (all_who, all_what) = (&who | &who_then, &what | &what_then);
            if matches!(news, News::Subject { .. }) {
                whos |= all_who;
                whats |= all_what;
                continue;
            }
            // Whoever the policy newly names, or no longer, with everything it is about; and the other way round.
            let (other_who, other_what) = (who ^ who_then, what ^ what_then);
            for (who, what) in [(other_who, all_what), (all_who, other_what)] {
                match who.len() <= what.len() {
                    _ if who.is_empty() || what.is_empty() => {}
                    true => whos |= who,
                    false => whats |= what,
                }
            }
        }
        (whos, whats)
    }

    /// What some news is about: the subject itself, on its side, or what the policy matches on either.
    fn touched(&self, engine: &Engine, news: &News) -> [RoaringBitmap; 2] {
        match news {
            News::Subject { subject, id, .. } => {
                [self.who, self.what].map(|side| engine.row(*subject, id).filter(|_| side == *subject).into_iter().collect())
            }
            News::Policy { kind, id, .. } if *kind == self.kind => {
                let policy = self.book(engine).names().row(id);
                let policy = policy.filter(|row| self.right.is_none_or(|right| engine.types.of(right).contains(*row)));
                let policy: RoaringBitmap = policy.into_iter().collect();
                [self.who, self.what].map(|side| self.book(engine).members(&policy, side, &engine.all))
            }
            News::Policy { .. } => Default::default(),
        }
    }

    /// Subjects in groups of those that are of one class before and of one after.
    fn alike(&self, engine: &mut Engine, news: &[News], side: Subject, rows: &RoaringBitmap) -> Vec<RoaringBitmap> {
        if rows.is_empty() {
            return Vec::new();
        }
        let classes =
            |engine: &Engine| -> Vec<Option<Class>> { rows.iter().map(|row| self.book(engine).class(side, row, &engine.all)).collect() };
        let before = classes(engine);
        let after = classes(&engine.as_if(news));
        let mut groups = HashMap::<_, RoaringBitmap>::new();
        for (row, classes) in rows.iter().zip(before.into_iter().zip(after)) {
            groups.entry(classes).or_default().insert(row);
        }
        groups.into_values().collect()
    }

    /// What one subject has on the other side.
    fn reach(&self, engine: &Engine, is_who: bool, row: Option<u32>) -> RoaringBitmap {
        let (from, to) = if is_who { (self.who, self.what) } else { (self.what, self.who) };
        let mut policies = row.map(|row| self.book(engine).of(from, row, &engine.all)).unwrap_or_default();
        if let Some(right) = self.right {
            policies &= engine.types.of(right);
        }
        self.book(engine).members(&policies, to, &engine.all)
    }

    fn tally(&self, engine: &Engine, pairs: &Pairs, most: usize) -> Tally<Arc<str>> {
        let counted = |subject, rows: &RoaringBitmap| {
            let named = engine.subjects(subject, rows.clone());
            Counted { count: rows.len(), first: named.in_order().take(most).map(|(_, id)| id.clone()).collect() }
        };
        Tally { pairs: pairs.count, who: counted(self.who, &pairs.who), what: counted(self.what, &pairs.what) }
    }
}
