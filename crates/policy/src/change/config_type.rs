//! Config types. Recognizes built-in config types that were never changed.

use model::entity::{ConfigType, Record, builtin};

use super::Lifecycle;

impl Lifecycle for ConfigType {
    fn is_factory(record: &Record<Self>) -> bool {
        builtin::is_shipped(record)
    }
}
