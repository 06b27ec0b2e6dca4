//! Lists: candidates, filter, order, page, total, and the limit on how long a scan may occupy a
//! core.

pub(crate) mod ids;
pub(crate) mod index_scan;
pub(crate) mod list_plan;
pub(crate) mod scan_limit;
pub(crate) mod sort_key;
