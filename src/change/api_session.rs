//! API sessions: what ends with one is said by references in `entity/`.

use super::{Lifecycle, ids::session_id};
use crate::entity::ApiSession;

impl Lifecycle for ApiSession {
    fn new_id() -> String {
        session_id()
    }
}
