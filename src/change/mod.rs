//! Every write goes through here: create, edit and delete for any kind, and what else happens then.
//!
//! Not here: who asked and whether they may (`http/`), how it is stored (`store/`). Start reading at [`Change`]; what a kind does
//! beyond being written is in the file of its name, as its [`Lifecycle`] (of the policies, which do nothing, in `policy.rs`).
//! Invariant: a record that breaks a rule of its kind is never stored, and everything a change brings about is in the same
//! transaction.

pub mod addresses;
mod api_session;
mod auth_policy;
pub mod authenticator;
pub mod built_in_router;
pub mod ca;
pub mod certificates;
mod config;
mod config_type;
mod draft;
pub mod edge_router;
pub mod enrollment;
mod external_jwt_signer;
mod first_start;
pub mod identity;
mod lifecycle;
mod mfa;
mod policy;
mod posture_check;
mod registry;
mod sealed_keys;
mod service;
mod session;
pub mod session_certificate;
mod terminator;
mod transit_router;

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

pub use certificates::{Certificates, UnusableFiles};
pub use draft::Draft;
pub use first_start::{Administrator, Filling, first_start, is_unseen, renew_config_types, replace_unseen, seal, seen, stored_seal};
pub use lifecycle::Lifecycle;
pub use registry::KINDS;
pub use sealed_keys::SealedKeys;

use crate::{
    clock::Timestamp,
    entity::{Author, Entity, FactsExt, Id, Identity, Most, Record},
    error::{Error, Result},
    pki::Keystore,
    store::{Event, Read, Store, Tx, check_every},
};

/// What changes need to know beside the store.
pub struct ChangeContext {
    /// Signs enrollment tokens.
    pub keystore: Arc<Keystore>,
    /// `host:port` under which clients reach this controller.
    pub address: String,
    /// How long an identity's one-time token is good for.
    pub identity_enrollment: Duration,
    /// How long a router's one-time token is good for.
    pub router_enrollment: Duration,
    /// What a request may put into a member of a record, and what into one of a record that whoever uses services makes.
    pub members: Most,
    pub client_members: Most,
    /// Whether key sets of external signers may be fetched by http from other hosts.
    pub plain_key_sets: bool,
}

impl ChangeContext {
    /// Who issues enrollment tokens: the address clients go to with them.
    pub fn issuer(&self) -> String {
        issuer(&self.address)
    }
}

/// Who issues tokens that send clients to this `host:port`.
fn issuer(address: impl fmt::Display) -> String {
    format!("https://{address}")
}

/// The way to change anything, with somebody behind it: the controller itself, unless [`Changes::by`] says otherwise. Cheap to clone.
#[derive(Clone)]
pub struct Changes {
    store: Store,
    context: Arc<ChangeContext>,
}

impl Changes {
    /// Changes on a store.
    pub fn new(store: Store, context: ChangeContext) -> Self {
        Self { store, context: Arc::new(context) }
    }

    /// The same, with this author behind them.
    #[must_use]
    pub fn by(&self, author: Author) -> Self {
        Self { store: self.store.by(author), context: self.context.clone() }
    }

    /// The same, known by now to be made by this identity.
    #[must_use]
    pub fn known_as(&self, identity: &Id<Identity>) -> Self {
        // Whether its name can be read decides nothing.
        let found = self.store.read(|tx| tx.find(identity)).ok().flatten();
        self.by(self.store.author().clone().known_as(identity, found.as_ref().map(|found| found.spec.name.as_str())))
    }

    /// How long a one-time token of an identity is good for unless its creator says.
    pub fn identity_enrollment(&self) -> Duration {
        self.context.identity_enrollment
    }

    /// The most that whoever uses services may put into a member.
    pub fn most_of_clients(&self) -> &Most {
        &self.context.client_members
    }

    /// Runs a job in one transaction. When this returns, what it wrote is on disk and visible everywhere.
    ///
    /// # Errors
    /// What the job answers, in which case nothing was written, or [`Error::Busy`] and [`Error::Storage`] of the store.
    pub async fn run<T: Send + 'static>(&self, job: impl FnOnce(&Change<'_, '_>) -> Result<T> + Send + 'static) -> Result<T> {
        let context = self.context.clone();
        self.store.write(move |tx| job(&Change { tx, context: &context })).await
    }

    /// Runs a job without changing anything, and looks at what it would have changed.
    ///
    /// # Errors
    /// As in [`Store::rehearse`].
    pub async fn rehearse<T, A: Send + 'static>(
        &self,
        job: impl FnOnce(&Change<'_, '_>) -> Result<T> + Send + 'static,
        look: impl FnOnce(&Read<'_>, Vec<Event>) -> Result<A> + Send + 'static,
    ) -> Result<A> {
        let context = self.context.clone();
        self.store.rehearse(move |tx| job(&Change { tx, context: &context }), look).await
    }

    /// [`Changes::run`] for callers outside of the request loop.
    ///
    /// # Errors
    /// As in [`Changes::run`].
    pub fn run_blocking<T: Send + 'static>(&self, job: impl FnOnce(&Change<'_, '_>) -> Result<T> + Send + 'static) -> Result<T> {
        let context = self.context.clone();
        self.store.write_blocking(move |tx| job(&Change { tx, context: &context }))
    }
}

/// One transaction of changes. Reads go to the transaction itself.
pub struct Change<'c, 't> {
    tx: &'c Tx<'t>,
    context: &'c ChangeContext,
}

impl<'t> Deref for Change<'_, 't> {
    type Target = Tx<'t>;
    fn deref(&self) -> &Tx<'t> {
        self.tx
    }
}

impl Change<'_, '_> {
    /// The time of the change.
    pub fn now(&self) -> Timestamp {
        crate::entity::Facts::now(self.tx)
    }

    /// Stores what a request asks to create.
    ///
    /// # Errors
    /// A rule of the kind is broken.
    pub fn create<E: Lifecycle>(&self, draft: Draft<E>) -> Result<Record<E>> {
        self.create_as(Id::from_text(E::new_id()), draft)
    }

    /// The same under an id that was made before.
    ///
    /// # Errors
    /// A rule of the kind is broken.
    pub fn create_as<E: Lifecycle>(&self, id: Id<E>, draft: Draft<E>) -> Result<Record<E>> {
        let mut record = Record::new(id, self.now(), draft.spec);
        record.tags = draft.tags;
        self.insert(record)
    }

    /// Stores a new record.
    ///
    /// # Errors
    /// A rule of the kind is broken.
    pub fn insert<E: Lifecycle>(&self, mut record: Record<E>) -> Result<Record<E>> {
        record.spec.tidy();
        self.check(None, &record)?;
        E::creating(&mut record, self)?;
        self.tx.insert(record.clone())?;
        E::created(&record, self)?;
        Ok(record)
    }

    /// Changes what a request may write of a record; `None` from `edit` leaves it as it is.
    ///
    /// # Errors
    /// There is no such record, it belongs to the system, or a rule of the kind is broken.
    pub fn edit<E: Lifecycle>(&self, id: &Id<E>, edit: impl FnOnce(&Draft<E>) -> Result<Option<Draft<E>>>) -> Result<()> {
        let old = self.tx.get(id)?;
        if old.is_system {
            return Err(Error::NotUpdatable(format!("{} {id} belongs to the system", E::KIND.name)));
        }
        let Some(draft) = edit(&Draft { tags: old.tags.clone(), spec: old.spec.clone() })? else { return Ok(()) };
        let mut new = Record { tags: draft.tags, spec: draft.spec, ..old.clone() };
        new.spec.tidy();
        self.check(Some(&old), &new)?;
        E::edited(&old, &mut new, self)?;
        self.put(new)
    }

    /// Stores a record that code changed, and moves its time.
    ///
    /// # Errors
    /// The store refuses it.
    pub fn put<E: Entity>(&self, mut record: Record<E>) -> Result<()> {
        record.updated_at = self.now();
        self.tx.put(record)
    }

    /// Deletes a record and what goes with it.
    ///
    /// # Errors
    /// There is no such record, it belongs to the system, or others refer to it.
    pub fn delete<E: Lifecycle>(&self, id: &Id<E>) -> Result<()> {
        self.remove(&self.tx.get(id)?)
    }

    fn remove<E: Lifecycle>(&self, record: &Record<E>) -> Result<()> {
        if record.is_system {
            return Err(Error::NotDeletable(format!("{} {} belongs to the system", E::KIND.name, record.id)));
        }
        E::deleting(record, self)?;
        self.tx.delete(&record.id)
    }

    /// Deletes the records of a kind whose indexed field or reference has this value, and what goes with them. Of a kind that can have very
    /// many they only end here, and are cleared away later (`store/tx/tombstone.rs`).
    ///
    /// # Errors
    /// As in [`Change::delete`].
    pub fn delete_linked<E: Lifecycle>(&self, field: &'static str, value: &str) -> Result<()> {
        self.tx.few_or_end::<E>(field, value)?.iter().try_for_each(|record| self.remove(record))
    }

    /// The rules for every write of a record: those of all kinds, then those of its own.
    fn check<E: Entity>(&self, old: Option<&Record<E>>, record: &Record<E>) -> Result<()> {
        // The store would refuse it too, but a blank name is told before what breaks a rule of the kind alone.
        let Err(refused) =
            Error::all([record.tags.check("tags"), self.check_amounts(old, record), check_every(record), record.spec.check(self.tx)])
        else {
            return Ok(());
        };
        // What is taken is told along with it; alone the store tells it.
        Error::all([Err(refused), self.tx.check_taken(record)])
    }

    /// No member that requests fill as they like holds more than the configuration allows, unless it did before.
    fn check_amounts<E: Entity>(&self, old: Option<&Record<E>>, record: &Record<E>) -> Result<()> {
        let most = if E::MADE_BY_CLIENTS { &self.context.client_members } else { &self.context.members };
        let before = old.map(|old| old.tags.amount()).unwrap_or_default();
        let tags = record.tags.amount().check("tags", before, most);
        let before = old.map(|old| old.spec.amounts()).unwrap_or_default();
        let members = record.spec.amounts().into_iter().map(|(member, amount)| {
            let before = before.iter().find(|(name, _)| *name == member).map(|(_, amount)| *amount).unwrap_or_default();
            amount.check(member, before, most)
        });
        Error::all(std::iter::once(tags).chain(members))
    }
}
