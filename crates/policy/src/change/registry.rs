//! The entries of all kinds, from the list in `entity/kinds/mod.rs`. The store uses the kinds only
//! through these entries and names none of them.

use model::entity;
use store::KindEntry;

use super::lifecycle::Lifecycle;

macro_rules! entries {
    ($($kind:ident $(: $how:ident)?),*) => {
        /// One entry per kind.
        pub static KINDS: &[KindEntry] = &[$(KindEntry::of::<entity::$kind>()),*];
        $($(entries!(@$how $kind);)?)*
    };
    (@written $kind:ident) => {
        impl Lifecycle for entity::$kind {}
    };
}

entity::every_kind!(entries);
