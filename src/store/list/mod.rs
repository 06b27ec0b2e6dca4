//! Lists: where candidates come from, filter, order, page, total, and how long a scan may occupy a core.

pub(crate) mod ids;
pub(crate) mod index_scan;
pub(crate) mod plan;
pub(crate) mod scan_limit;
pub(crate) mod sort_key;
