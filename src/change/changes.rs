//! Transactions of changes, and what they know beside the store. What is done to records in one: `records.rs`.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use crate::{
    clock::Timestamp,
    entity::{Author, FactsExt, Id, Identity, Most},
    error::Result,
    pki::Keystore,
    store::{Event, Read, Store, Tx},
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
pub(super) fn issuer(address: impl fmt::Display) -> String {
    format!("https://{address}")
}

/// The way to change anything, with somebody behind it: the controller itself, unless [`Changes::by`] says otherwise. Cheap to clone.
#[derive(Clone)]
pub struct Changes {
    store: Store,
    pub(super) context: Arc<ChangeContext>,
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
    /// What the job answers, in which case nothing was written, or the store is busy or failed.
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
    pub(super) tx: &'c Tx<'t>,
    pub(super) context: &'c ChangeContext,
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
}
