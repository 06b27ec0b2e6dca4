//! What else happens when a record of a kind is written.

use uuid::Uuid;

use super::Change;
use crate::{
    entity::{Entity, Record},
    error::Result,
};

const BASE_62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// What a kind does beyond being stored. Each step is part of the change that calls it, and may refuse it.
pub trait Lifecycle: Entity {
    /// The id of a new record: random, 22 letters and digits.
    fn new_id() -> String {
        long_id()
    }

    /// Before a new record is stored; may still alter it.
    ///
    /// # Errors
    /// A rule is broken.
    fn creating(_record: &mut Record<Self>, _change: &Change<'_, '_>) -> Result<()> {
        Ok(())
    }

    /// After a new record was stored.
    ///
    /// # Errors
    /// What it brings about fails.
    fn created(_record: &Record<Self>, _change: &Change<'_, '_>) -> Result<()> {
        Ok(())
    }

    /// Before an edited record is stored; may still alter it.
    ///
    /// # Errors
    /// A rule is broken.
    fn edited(_old: &Record<Self>, _new: &mut Record<Self>, _change: &Change<'_, '_>) -> Result<()> {
        Ok(())
    }

    /// Before a record is deleted.
    ///
    /// # Errors
    /// It must not be.
    fn deleting(_record: &Record<Self>, _change: &Change<'_, '_>) -> Result<()> {
        Ok(())
    }
}

/// A random UUID in base 62.
fn long_id() -> String {
    let mut rest = Uuid::new_v4().as_u128();
    let mut text = String::with_capacity(22);
    for _ in 0..22 {
        text.extend(BASE_62.get((rest % 62) as usize).map(|digit| char::from(*digit)));
        rest /= 62;
    }
    text
}

/// A random id short enough to be typed: 11 letters and digits, 65 bits.
pub fn short_id() -> String {
    long_id().chars().take(11).collect()
}
