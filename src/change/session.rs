//! Sessions. What ends one is defined by references in `entity/`.

use super::{Lifecycle, ids::session_id};
use crate::entity::Session;

impl Lifecycle for Session {
    fn new_id() -> String {
        session_id()
    }
}
