//! The admin port: `GET /metrics` for Prometheus, `GET /snapshot` as JSON, `GET /ready`, and `POST /reload`. Formats:
//! `docs/formats.md`.

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
use serde_json::{Map, json};
use std::{convert::Infallible, io, net::TcpListener, sync::Arc, time::Duration};
use weir_dataplane::Report;

/// Admin connections that are served at once; more wait in the kernel.
const CONNECTIONS_MAX: usize = 64;

/// How long an admin client may take to send its request, and then each next one.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);

async fn answer(reporter: Arc<Reporter>, method: Method, path: String) -> Response<Full<Bytes>> {
    if method == Method::POST && path == "/reload" {
        reload(&reporter).await
    } else {
        tell(&reporter, &method, &path)
    }
}

/// Waits until the new configuration is in force.
async fn reload(reporter: &Reporter) -> Response<Full<Bytes>> {
    let Some(answer) = reporter.keeper.try_reload() else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "too much is asked at once; try again\n".into());
    };
    match answer.await {
        Ok(Ok(told)) => plain(StatusCode::OK, format!("{told}\n")),
        Ok(Err(reason)) => plain(StatusCode::UNPROCESSABLE_ENTITY, format!("{reason}\n")),
        Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "the proxy is ending\n".into()),
    }
}

fn tell(reporter: &Reporter, method: &Method, path: &str) -> Response<Full<Bytes>> {
    let write: fn(&Reporter, &Report) -> String = match (method, path) {
        (&Method::GET, "/metrics") => metrics::write,
        (&Method::GET, "/snapshot") => snapshot::write,
        (&Method::GET, "/ready") => ready,
        (&Method::GET, "/reload") => {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "POST reads the configuration again\n".into());
        }
        (&Method::GET, _) => {
            let pages = "there are /metrics, /snapshot and /ready here, and POST /reload\n";
            return plain(StatusCode::NOT_FOUND, pages.into());
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

/// Clients can connect and every loop answers; what it goes by, and which servers are not read.
fn ready(reporter: &Reporter, report: &Report) -> String {
    let in_force = reporter.keeper.in_force();
    let (generation, loaded_unix_ns) = (in_force.generation, in_force.loaded_unix_ns);
    let unread = report.servers.iter().filter_map(|it| it.unread.map(|why| (it.server.clone(), json!(why))));
    json!({
        "ready": true,
        "generation": generation,
        "loaded_unix_ns": loaded_unix_ns,
        "servers_unread": unread.collect::<Map<_, _>>(),
    })
    .to_string()
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
                let (reporter, path) = (Arc::clone(&reporter), request.uri().path().to_owned());
                let response = answer(reporter, request.method().clone(), path);
                async move { Ok::<_, Infallible>(response.await) }
            });
            let mut server = http1::Builder::new();
            server.timer(hyper_util::rt::TokioTimer::new()).header_read_timeout(HEADER_PATIENCE);
            // A broken admin connection concerns only its client.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}
