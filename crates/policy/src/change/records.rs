//! Creating, editing and deleting records of any kind, with what a kind does beyond that.

use model::{
    clock::Timestamp,
    entity::{Entity, Id, Record, TypedLookup, unmatchable},
    error::{Error, Result},
};
use store::check_every;

use super::{changes::Change, draft::Draft, lifecycle::Lifecycle};

impl Change<'_, '_> {
    /// Creates a record from a request.
    ///
    /// # Errors
    /// A rule of the kind is broken.
    pub fn create<E: Lifecycle>(&self, draft: Draft<E>) -> Result<Record<E>> {
        let matching = unmatchable::refuse(draft.spec.unmatchable(), Vec::new);
        self.insert_checked(
            recorded(Id::from_text(E::new_id()), self.now(), draft),
            matching,
        )
    }

    /// Creates a record with an id made before. Members that nothing can match are accepted,
    /// because it may be a record of another controller.
    ///
    /// # Errors
    /// A rule of the kind is broken.
    pub fn create_as<E: Lifecycle>(&self, id: Id<E>, draft: Draft<E>) -> Result<Record<E>> {
        self.insert(recorded(id, self.now(), draft))
    }

    /// Stores a new record.
    ///
    /// # Errors
    /// A rule of the kind is broken.
    pub fn insert<E: Lifecycle>(&self, record: Record<E>) -> Result<Record<E>> {
        self.insert_checked(record, Ok(()))
    }

    fn insert_checked<E: Lifecycle>(
        &self,
        mut record: Record<E>,
        matching: Result<()>,
    ) -> Result<Record<E>> {
        record.spec.tidy();
        self.check(None, &record, matching)?;
        E::creating(&mut record, self)?;
        self.tx.insert(record.clone())?;
        E::created(&record, self)?;
        Ok(record)
    }

    /// Edits the part of a record that a request may write; `None` from `edit` leaves the record
    /// unchanged.
    ///
    /// # Errors
    /// There is no such record, it belongs to the system, or a rule of the kind is broken.
    pub fn edit<E: Lifecycle>(
        &self,
        id: &Id<E>,
        edit: impl FnOnce(&Draft<E>) -> Result<Option<Draft<E>>>,
    ) -> Result<()> {
        self.edit_record(self.tx.get(id)?, edit)
    }

    /// [`Change::edit`] of a record that this transaction has read and has not changed since.
    ///
    /// # Errors
    /// The record belongs to the system, or a rule of the kind is broken.
    pub fn edit_record<E: Lifecycle>(
        &self,
        old: Record<E>,
        edit: impl FnOnce(&Draft<E>) -> Result<Option<Draft<E>>>,
    ) -> Result<()> {
        if old.is_system {
            return Err(Error::NotUpdatable(format!(
                "{} {} belongs to the system",
                E::KIND.name,
                old.id
            )));
        }
        let Some(draft) = edit(&Draft {
            tags: old.tags.clone(),
            spec: old.spec.clone(),
        })?
        else {
            return Ok(());
        };
        let matching = unmatchable::refuse(draft.spec.unmatchable(), || old.spec.unmatchable());
        let mut new = Record {
            tags: draft.tags,
            spec: draft.spec,
            ..old.clone()
        };
        new.spec.tidy();
        self.check(Some(&old), &new, Ok(()))?;
        E::edited(&old, &mut new, self)?;
        // After the rules about members that cannot be changed, such as the type of a check.
        matching?;
        self.replace(old, new)
    }

    /// Stores a record that code changed, and sets its time of change.
    ///
    /// # Errors
    /// The store rejects it.
    pub fn put<E: Entity>(&self, mut record: Record<E>) -> Result<()> {
        record.updated_at = self.now();
        self.tx.put(record)
    }

    /// [`Change::put`] over a record that this transaction has read as `old` and has not changed
    /// since; it is not read again.
    ///
    /// # Errors
    /// The store rejects it.
    pub fn replace<E: Entity>(&self, old: Record<E>, mut new: Record<E>) -> Result<()> {
        new.updated_at = self.now();
        self.tx.replace(old, new)
    }

    /// Deletes a record and its dependents.
    ///
    /// # Errors
    /// There is no such record, it belongs to the system, or others refer to it.
    pub fn delete<E: Lifecycle>(&self, id: &Id<E>) -> Result<()> {
        self.delete_record(self.tx.get(id)?)
    }

    /// [`Change::delete`] of a record that this transaction has read and has not changed since; it
    /// is not read again.
    ///
    /// # Errors
    /// It belongs to the system, or others refer to it.
    pub fn delete_record<E: Lifecycle>(&self, record: Record<E>) -> Result<()> {
        if record.is_system {
            return Err(Error::NotDeletable(format!(
                "{} {} belongs to the system",
                E::KIND.name,
                record.id
            )));
        }
        E::deleting(&record, self)?;
        self.tx.delete_record(record)
    }

    /// Deletes the records of a kind with this value of an indexed field or reference, and their
    /// dependents. For a kind that can have very many of them, a tombstone is written and they are
    /// removed later (`crates/store/src/tx/tombstone.rs`).
    ///
    /// # Errors
    /// As in [`Change::delete`].
    pub(crate) fn delete_linked<E: Lifecycle>(
        &self,
        field: &'static str,
        value: &str,
    ) -> Result<()> {
        self.tx
            .few_or_tombstone::<E>(field, value)?
            .into_iter()
            .try_for_each(|record| self.delete_record(record))
    }

    /// The rules for every write of a record: those of all kinds, then those of its own. `matching`
    /// says whether something can match it as it was sent.
    fn check<E: Entity>(
        &self,
        old: Option<&Record<E>>,
        record: &Record<E>,
        matching: Result<()>,
    ) -> Result<()> {
        // The store would reject a blank name too, but it is reported together with the other
        // errors here.
        let own = record.spec.check(self.tx);
        let rules = [
            record.tags.check("tags"),
            self.check_amounts(old, record),
            check_every(record),
            own,
            matching,
        ];
        let Err(refused) = Error::all(rules) else {
            return Ok(());
        };
        // Values that are taken are reported as well; without other errors the store reports them.
        Error::all([Err(refused), self.tx.check_taken(record)])
    }

    /// No member that requests fill freely may exceed the configured limit, unless it did so
    /// before.
    pub(super) fn check_amounts<E: Entity>(
        &self,
        old: Option<&Record<E>>,
        record: &Record<E>,
    ) -> Result<()> {
        let limit = if E::MADE_BY_CLIENTS {
            &self.context.client_members
        } else {
            &self.context.members
        };
        let before = old.map(|old| old.tags.amount()).unwrap_or_default();
        let tags = record.tags.amount().check("tags", before, limit);
        let before = old.map(|old| old.spec.amounts()).unwrap_or_default();
        let members = record.spec.amounts().into_iter().map(|(member, amount)| {
            let before = before
                .iter()
                .find(|(name, _)| *name == member)
                .map(|(_, amount)| *amount)
                .unwrap_or_default();
            amount.check(member, before, limit)
        });
        Error::all(std::iter::once(tags).chain(members))
    }
}

/// The record of a draft.
fn recorded<E: Entity>(id: Id<E>, now: Timestamp, draft: Draft<E>) -> Record<E> {
    let mut record = Record::new(id, now, draft.spec);
    record.tags = draft.tags;
    record
}
