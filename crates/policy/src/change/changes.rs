//! Transactions of changes, and what they need besides the store. The operations on records in such
//! a transaction are in `records.rs`.

use std::{fmt, sync::Arc, time::Duration};

use model::{
    clock::Timestamp,
    entity::{
        AmountLimit, AnyRecord, Author, Epoch, Id, Identity, Kind, Lookup, RouterInfo, TypedLookup,
    },
    error::Result,
};
use pki::Keystore;
use store::{Event, Read, Store, Tx};

/// What changes need besides the store.
pub struct ChangeContext {
    /// Signs enrollment tokens.
    pub keystore: Arc<Keystore>,
    /// `host:port` under which clients reach this controller.
    pub address: String,
    /// The validity of an identity's one-time token.
    pub identity_enrollment: Duration,
    /// The validity of a router's one-time token.
    pub router_enrollment: Duration,
    /// The limits on the members of a record, and those on records that clients of the client
    /// interface make.
    pub members: AmountLimit,
    pub client_members: AmountLimit,
    /// Whether key sets of external signers may be fetched over plain http from other hosts.
    pub plain_key_sets: bool,
}

impl ChangeContext {
    /// The issuer of enrollment tokens, which is the URL that clients enroll at.
    pub(crate) fn issuer(&self) -> String {
        issuer(&self.address)
    }
}

/// The issuer of tokens for this `host:port`.
pub(super) fn issuer(address: impl fmt::Display) -> String {
    format!("https://{address}")
}

/// The interface for all changes, with an author: the controller itself, unless [`Changes::by`]
/// sets another. Cheap to clone.
#[derive(Clone)]
pub struct Changes {
    store: Store,
    pub(super) context: Arc<ChangeContext>,
}

impl Changes {
    /// Changes on a store.
    pub fn new(store: Store, context: ChangeContext) -> Self {
        Self {
            store,
            context: Arc::new(context),
        }
    }

    /// The same interface with this author.
    #[must_use]
    pub fn by(&self, author: Author) -> Self {
        Self {
            store: self.store.by(author),
            context: self.context.clone(),
        }
    }

    /// The same interface with this identity as the author, for a caller that was identified
    /// meanwhile.
    #[must_use]
    pub(crate) fn known_as(&self, identity: &Id<Identity>) -> Self {
        // A name that cannot be read is left out.
        let found = self.store.read(|tx| tx.find(identity)).ok().flatten();
        self.by(self.store.author().clone().known_as(
            identity,
            found.as_ref().map(|found| found.spec.name.as_str()),
        ))
    }

    /// The validity of an identity's one-time token unless its creator sets one.
    pub fn identity_enrollment(&self) -> Duration {
        self.context.identity_enrollment
    }

    /// The limits on the members of records that clients make.
    pub fn most_of_clients(&self) -> &AmountLimit {
        &self.context.client_members
    }

    /// Runs a job in one transaction. When this returns, its writes are on disk and visible to
    /// every reader.
    ///
    /// # Errors
    /// The error of the job, in which case nothing was written, or the store is busy or failed.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Change<'_, '_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let context = self.context.clone();
        self.store
            .write(move |tx| {
                job(&Change {
                    tx,
                    context: &context,
                })
            })
            .await
    }

    /// Runs a job without changing anything, and passes what it would have changed, and its result,
    /// to `look`.
    ///
    /// # Errors
    /// As in [`Store::dry_run`].
    pub async fn dry_run<T, A: Send + 'static>(
        &self,
        job: impl FnOnce(&Change<'_, '_>) -> Result<T> + Send + 'static,
        look: impl FnOnce(&Read<'_>, Vec<Event>, T) -> Result<A> + Send + 'static,
    ) -> Result<A> {
        let context = self.context.clone();
        self.store
            .dry_run(
                move |tx| {
                    job(&Change {
                        tx,
                        context: &context,
                    })
                },
                look,
            )
            .await
    }

    /// [`Changes::run`] for threads that may block.
    ///
    /// # Errors
    /// As in [`Changes::run`].
    pub fn run_blocking<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Change<'_, '_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let context = self.context.clone();
        self.store.write_blocking(move |tx| {
            job(&Change {
                tx,
                context: &context,
            })
        })
    }
}

/// One transaction of changes. It answers what a [`Lookup`] answers; other questions go to
/// [`Change::read`]. What it writes goes through its own methods, which know the rules of each
/// kind. It does not deref to the transaction of the store, whose writes know none.
pub struct Change<'c, 't> {
    pub(super) tx: &'c Tx<'t>,
    pub(super) context: &'c ChangeContext,
}

impl<'t> Change<'_, 't> {
    /// The transaction, for what it answers.
    pub fn read(&self) -> &Read<'t> {
        self.tx.read()
    }

    /// The transaction, for writes that are no records of a kind with rules.
    pub(crate) fn tx(&self) -> &Tx<'t> {
        self.tx
    }

    /// The time of the change.
    pub fn now(&self) -> Timestamp {
        Lookup::now(self.tx)
    }

    /// Declares that a client makes what is written from now on, which has no right to change
    /// anything but what is its own.
    pub fn act_for_client(&self) {
        self.tx.act_for_client();
    }
}

impl Lookup for Change<'_, '_> {
    fn record(&self, kind: Kind, id: &str) -> Result<Option<AnyRecord>> {
        self.tx.record(kind, id)
    }
    fn ids(&self, kind: Kind, field: &'static str, value: &str) -> Result<Vec<String>> {
        self.tx.ids(kind, field, value)
    }
    fn any(&self, kind: Kind, field: &'static str, value: &str) -> Result<bool> {
        Lookup::any(self.tx, kind, field, value)
    }
    fn ended_before(&self, kind: Kind, field: &'static str, value: &str) -> Result<Epoch> {
        self.tx.ended_before(kind, field, value)
    }
    fn any_tombstone(&self) -> Result<bool> {
        self.tx.any_tombstone()
    }
    fn router_info(&self, router: &str) -> Option<RouterInfo> {
        self.tx.router_info(router)
    }
    fn is_connected(&self, identity: &str) -> bool {
        self.tx.is_connected(identity)
    }
    fn dynamic_cost(&self, terminator: &str) -> u16 {
        self.tx.dynamic_cost(terminator)
    }
    fn now(&self) -> Timestamp {
        Lookup::now(self.tx)
    }
}
