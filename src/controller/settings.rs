//! The parts of the configuration, in the types of the modules that use them.

use std::sync::Arc;

use model::{clock::Clock, config::Config, entity::AmountLimit, metrics::StoreMetrics};
use pki::{Files, Keystore};
use policy::change::ChangeContext;
use rest::RequestLimits;
use store::online::Online;

/// The limits on requests.
pub(super) fn limits(config: &Config) -> RequestLimits {
    let http = &config.http;
    RequestLimits {
        requests: http.max_requests,
        head: http.max_head_bytes,
        body: http.max_body_bytes,
        open_body: http.max_open_body_bytes,
        time: http.request_timeout.duration(),
        certificates: config.sessions.certificates,
        origins: http.cors_origins.clone(),
    }
}

/// The context of changes; `address` is the first advertised address.
pub(super) fn context(config: &Config, keystore: Arc<Keystore>, address: String) -> ChangeContext {
    ChangeContext {
        keystore,
        address,
        identity_enrollment: config.enrollment.identity_duration.duration(),
        router_enrollment: config.enrollment.edge_router_duration.duration(),
        members: AmountLimit::of(&config.members),
        client_members: AmountLimit::of_clients(&config.members),
        plain_key_sets: config.key_sets.allow_http,
    }
}

/// The options of the store.
pub(super) fn options(config: &Config, clock: &Clock, metrics: &StoreMetrics) -> store::Options {
    store::Options {
        cache_bytes: config.store.cache_mib << 20,
        queue: config.store.queue,
        group: config.store.group,
        scans: config.store.scans,
        scan_queue: config.store.scan_queue,
        compact: config.store.compact_at_start,
        clock: clock.clone(),
        online: Online::default(),
        metrics: metrics.clone(),
        ..store::Options::default()
    }
}

/// The files of an external listener certificate, if configured.
pub(super) fn files(config: &Config) -> Option<Files> {
    config
        .tls
        .certificate
        .as_deref()
        .zip(config.tls.key.as_deref())
        .map(|(certificate, key)| Files::new(certificate, key))
}
