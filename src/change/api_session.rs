//! API sessions. What is deleted with one is defined by references in `entity/`.

use super::{Lifecycle, ids::session_id};
use crate::entity::ApiSession;

impl Lifecycle for ApiSession {
    fn new_id() -> String {
        session_id()
    }
}
