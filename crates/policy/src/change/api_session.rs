//! API sessions. What is deleted with one is defined by references in `entity/`.

use model::entity::ApiSession;

use super::{Lifecycle, ids::session_id};

impl Lifecycle for ApiSession {
    fn new_id() -> String {
        session_id()
    }
}
