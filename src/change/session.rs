//! Sessions: what they end with is said by references in `entity/`.

use super::{Lifecycle, ids::session_id};
use crate::entity::Session;

impl Lifecycle for Session {
    fn new_id() -> String {
        session_id()
    }
}
