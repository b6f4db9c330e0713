//! The admin port: `GET /metrics` for Prometheus, `GET /snapshot` as JSON. Formats: `docs/formats.md`.

use crate::{metrics, reporter::Reporter, snapshot};
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::CONTENT_TYPE,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, io, net::TcpListener, sync::Arc, time::Duration};
use weir_dataplane::Report;

/// Admin connections that are served at once; more wait in the kernel.
const CONNECTIONS_MAX: usize = 64;

/// How long an admin client may take to send its request, and then each next one.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);

fn answer(reporter: &Reporter, method: &Method, path: &str) -> Response<Full<Bytes>> {
    let write: fn(&Reporter, &Report) -> String = match (method, path) {
        (&Method::GET, "/metrics") => metrics::write,
        (&Method::GET, "/snapshot") => snapshot::write,
        (&Method::GET, _) => {
            return plain(StatusCode::NOT_FOUND, "there are /metrics and /snapshot here\n".into());
        }
        _ => return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n".into()),
    };
    match reporter.report() {
        Ok(report) => {
            let kind = if path == "/metrics" { "text/plain; version=0.0.4" } else { "application/json" };
            let mut response = Response::new(Full::from(write(reporter, &report)));
            response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
            response
        }
        Err(error) => {
            plain(StatusCode::SERVICE_UNAVAILABLE, format!("an event loop does not answer: {error}\n"))
        }
    }
}

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}

/// Answers until the process ends.
pub(crate) fn serve(listener: TcpListener, reporter: Reporter) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(accept_all(listener, Arc::new(reporter)))
}

async fn accept_all(listener: TcpListener, reporter: Arc<Reporter>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let reporter = Arc::clone(&reporter);
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let response = answer(&reporter, request.method(), request.uri().path());
                async move { Ok::<_, Infallible>(response) }
            });
            let mut server = http1::Builder::new();
            server.timer(hyper_util::rt::TokioTimer::new()).header_read_timeout(HEADER_PATIENCE);
            // A broken admin connection concerns only its client.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}
