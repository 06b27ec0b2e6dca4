//! Config types. Recognizes built-in config types that were never changed.

use super::Lifecycle;
use crate::entity::{ConfigType, Record, builtin};

impl Lifecycle for ConfigType {
    fn is_factory(record: &Record<Self>) -> bool {
        builtin::is_shipped(record)
    }
}
