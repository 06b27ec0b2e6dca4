//! The default of every key.

use std::path::PathBuf;

use super::*;

impl Default for Config {
    fn default() -> Config {
        Config {
            data: PathBuf::from("overkeep.redb"),
            listen: SocketAddr::from(([127, 0, 0, 1], 1280)).into(),
            advertise: Vec::new(),
            admin_password_file: None,
            passphrase_file: None,
            tls: Tls::default(),
            log: Log {
                level: "info".into(),
                format: Format::Auto,
            },
            http: Http {
                cors_origins: vec!["*".into()],
                request_timeout: Span::seconds(10),
                client_timeout: Span::seconds(5),
                handshake_timeout: Span::seconds(5),
                keep_alive: Span::seconds(60),
                unread_timeout: Span::seconds(30),
                max_unread_bytes: 8 << 20,
                max_unread_bytes_total: 128 << 20,
                max_streams: 128,
                max_connections: 20_000,
                max_handshakes: 4096,
                max_requests: 2048,
                max_head_bytes: 65_536,
                max_body_bytes: 1 << 20,
                max_open_body_bytes: 65_536,
                workers: 0,
            },
            members: MemberLimits {
                entries: 1000,
                bytes: 65_536,
                client_entries: 64,
                client_bytes: 4096,
            },
            sessions: SessionConfig {
                timeout: Span::minutes(30),
                per_identity: 25_000,
                services_per_identity: 100_000,
                certificates: 32,
                activity_interval: Span::seconds(90),
                activity_batch: 250,
                sweep_interval: Span::seconds(5),
                sweep_batch: 500,
            },
            enrollment: EnrollmentConfig {
                identity_duration: Span::minutes(180),
                edge_router_duration: Span::minutes(180),
                keep_expired: Span::minutes(30 * 24 * 60),
                routers_may_name_controller: false,
            },
            passwords: PasswordConfig {
                slots: 1,
                queue: 64,
                cost: 14,
                remembered: 50_000,
                min_length: 5,
                max_attempts: 0,
                lockout_minutes: 0,
                max_lockout_minutes: 24 * 60,
            },
            codes: CodeConfig {
                wrong_per_5_minutes: 20,
                wrong_per_day: 100,
                wrong_per_day_in_all: 300,
                remembered: 50_000,
            },
            tokens: TokenConfig {
                max_bytes: 16 << 10,
                ahead: Span::seconds(10),
            },
            key_sets: KeySetConfig {
                timeout: Span::seconds(3),
                max_bytes: 256 << 10,
                max_keys: 100,
                pause: Span::seconds(1),
                pause_after_failure: Span::seconds(5),
                refresh: Span::seconds(60),
                lifetime: Span::minutes(5),
                fetches: 32,
                waiting: 256,
                kept: 1000,
                allow_http: false,
            },
            posture: PostureConfig {
                max_text_bytes: 4096,
                processes: 256,
                write_interval: Span::seconds(10),
            },
            router: RouterConfig::default(),
            routers: RemoteRoutersConfig::default(),
            store: StoreConfig {
                cache_mib: 64,
                group: 256,
                queue: 1024,
                scans: 2,
                scan_queue: 32,
                compact_at_start: true,
            },
            history: HistoryConfig {
                max_age: Span::minutes(365 * 24 * 60),
                max_mib: 64,
                sessions_max_age: None,
                sessions_max_mib: None,
                readers: 16,
            },
            snapshots: Snapshots {
                directory: None,
                interval: Span::minutes(24 * 60),
                keep: 7,
                keep_for: Span::minutes(3650 * 24 * 60),
                after: Vec::new(),
            },
            integrity: Integrity {
                scrub_interval: Span::minutes(24 * 60),
            },
            metrics: MetricsConfig::default(),
        }
    }
}
