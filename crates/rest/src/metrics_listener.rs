//! The listener for metrics collectors: HTTP without TLS and without a session, on a separate
//! address.
//!
//! It answers GET and HEAD of `/metrics` and nothing else. Connections, bytes of a head, and times
//! are bounded, because any program that reaches the address can connect. Bodies are not read.

use std::{net::TcpListener, sync::Arc, time::Duration};

use actix_web::{
    App, HttpRequest, HttpResponse, HttpServer,
    dev::{Server, ServerHandle},
    http::Method,
    middleware::DefaultHeaders,
    web,
};

use super::{body, header::OF_EVERY_ANSWER, media_type};

/// Connections at the same time.
const CONNECTIONS: usize = 32;
/// The time limit for a head to arrive, and for the pause between two requests of a connection.
const TIME: Duration = Duration::from_secs(5);

const OPENMETRICS: &str = "application/openmetrics-text";
const PROMETHEUS: &str = "text/plain";

/// The format in which metrics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    OpenMetrics,
    Prometheus,
}

/// Writes all metrics as text. Blocks the thread.
pub(crate) type MetricsSource = Arc<dyn Fn(MetricsFormat) -> String + Send + Sync>;

/// A server for a socket that is bound. It runs while it is polled.
///
/// # Errors
/// The socket cannot be used.
pub fn serve(
    socket: TcpListener,
    source: MetricsSource,
) -> std::io::Result<(Server, ServerHandle)> {
    let app = move || {
        let source = source.clone();
        let headers = OF_EVERY_ANSWER
            .into_iter()
            .fold(DefaultHeaders::new(), DefaultHeaders::add);
        App::new()
            .wrap(headers)
            .default_service(web::to(move |request: HttpRequest| {
                answer(request, source.clone())
            }))
    };
    let server = HttpServer::new(app)
        .workers(1)
        .max_connections(CONNECTIONS)
        .client_request_timeout(TIME)
        .keep_alive(TIME);
    let server = server
        .disable_signals()
        .shutdown_timeout(1)
        .listen(socket)?
        .run();
    let handle = server.handle();
    Ok((server, handle))
}

async fn answer(request: HttpRequest, source: MetricsSource) -> HttpResponse {
    if request.path() != "/metrics" {
        return HttpResponse::NotFound().finish();
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return HttpResponse::MethodNotAllowed().finish();
    }
    let accept = body::list(request.headers(), "accept").unwrap_or_default();
    let (format, media) = match media_type::best(&accept, &[PROMETHEUS, OPENMETRICS]) {
        Some(OPENMETRICS) => (
            MetricsFormat::OpenMetrics,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        ),
        _ => (
            MetricsFormat::Prometheus,
            "text/plain; version=0.0.4; charset=utf-8",
        ),
    };
    match web::block(move || source(format)).await {
        Ok(text) => HttpResponse::Ok().content_type(media).body(text),
        Err(_) => HttpResponse::ServiceUnavailable().finish(),
    }
}
