//! The admin port: numbers, health, where keys are, what is in force, and `POST /reload`. Formats: `docs/formats.md`.

mod query;

use crate::{metrics, reporter::Reporter, snapshot, windows};
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode, Uri,
    body::{Bytes, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use std::{convert::Infallible, io, net::TcpListener, sync::Arc, time::Duration};
use weir_dataplane::Report;
use weir_routing::REPLICAS_MAX;

/// Admin connections that are served at once; more wait in the kernel.
const CONNECTIONS_MAX: usize = 64;

/// How long an admin client may take to send its request, and then each next one.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);

/// The longest request that is read, in bytes: a key of 250 bytes and the headers of any browser fit. Longer ones get status 431.
const REQUEST_BYTES_MAX: usize = 16 << 10;

/// Header lines that are read; more get status 431.
const HEADERS_MAX: usize = 64;

const PAGES: &str = "there are /metrics, /snapshot, /windows?since=INDEX, /where?key=KEY, /config, /healthz and /readyz here, and POST /reload\n";

type Answer = Response<Full<Bytes>>;

async fn answer(reporter: Arc<Reporter>, method: Method, uri: Uri) -> Answer {
    match (&method, uri.path()) {
        (&Method::POST, "/reload") => reload(&reporter).await,
        (&Method::GET, "/reload") => {
            plain(StatusCode::METHOD_NOT_ALLOWED, "POST reads the configuration again\n".into())
        }
        (&Method::GET, "/windows") => {
            // Two minutes of histograms take a while to be written down; health is told meanwhile.
            let written = tokio::task::spawn_blocking(move || windows_since(&reporter, uri.query()));
            written.await.unwrap_or_else(|_| {
                plain(StatusCode::INTERNAL_SERVER_ERROR, "it could not be written\n".into())
            })
        }
        (&Method::GET, _) => tell(&reporter, &uri),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here, and POST /reload\n".into()),
    }
}

/// Waits until the new configuration is in force.
async fn reload(reporter: &Reporter) -> Answer {
    let Some(answer) = reporter.keeper.try_reload() else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "too much is asked at once; try again\n".into());
    };
    match answer.await {
        Ok(Ok(told)) => plain(StatusCode::OK, format!("{told}\n")),
        Ok(Err(reason)) => plain(StatusCode::UNPROCESSABLE_ENTITY, format!("{reason}\n")),
        Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "the proxy is ending\n".into()),
    }
}

fn tell(reporter: &Reporter, uri: &Uri) -> Answer {
    let write: fn(&Reporter, &Report) -> Answer = match uri.path() {
        "/healthz" => return plain(StatusCode::OK, "ok\n".into()),
        "/where" => return place(reporter, uri.query()),
        "/config" => return json_page(&snapshot::config(reporter)),
        "/metrics" => |reporter, report| page("text/plain; version=0.0.4", metrics::write(reporter, report)),
        "/snapshot" => |reporter, report| page("application/json", snapshot::write(reporter, report)),
        "/ready" | "/readyz" => ready,
        _ => return plain(StatusCode::NOT_FOUND, PAGES.into()),
    };
    match reporter.report() {
        Ok(report) => write(reporter, &report),
        Err(error) => {
            plain(StatusCode::SERVICE_UNAVAILABLE, format!("an event loop does not answer: {error}\n"))
        }
    }
}

/// Clients can connect and every loop answers; what it goes by, and which servers are not read.
fn ready(reporter: &Reporter, report: &Report) -> Answer {
    let in_force = reporter.keeper.in_force();
    let (generation, loaded_unix_ns) = (in_force.generation, in_force.loaded_unix_ns);
    let unread = report.servers.iter().filter_map(|it| it.unread.map(|why| (it.server.clone(), json!(why))));
    json_page(&json!({
        "ready": true,
        "generation": generation,
        "loaded_unix_ns": loaded_unix_ns,
        "servers_unread": unread.collect::<Map<_, _>>(),
    }))
}

/// Which servers hold a key, the primary first.
fn place(reporter: &Reporter, query: Option<&str>) -> Answer {
    let key = match query::only(query, "key") {
        Ok(Some(key)) if !key.is_empty() => key,
        Ok(_) => return bad("give a key: /where?key=KEY, with %XX for what is no letter or digit"),
        Err(reason) => return bad(&reason),
    };
    let table = reporter.keeper.in_force().table;
    let mut places = [0; REPLICAS_MAX];
    let count = table.replicas_of(&key, &mut places);
    let servers = places[..count].iter().map(|place| table.servers()[usize::from(*place)].name.as_str());
    let pool = table.pools()[table.pool_of(&key)].name();
    let servers = servers.collect::<Vec<_>>();
    json_page(&json!({"key": String::from_utf8_lossy(&key), "pool": pool, "servers": servers}))
}

fn windows_since(reporter: &Reporter, query: Option<&str>) -> Answer {
    let since = match query::only(query, "since") {
        Ok(None) => Some(0),
        Ok(Some(text)) => std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()),
        Err(reason) => return bad(&reason),
    };
    let Some(since) = since else {
        return bad("since is the index of a window, a whole number: /windows?since=120");
    };
    let windows = reporter.windows.since(since);
    let dropped = reporter.windows_dropped();
    let records: Vec<_> = windows.iter().map(|window| windows::record(window, dropped)).collect();
    let next = windows.last().map_or(since, |window| window.index + 1);
    json_page(&json!({"schema": "weir.windows/1", "next": next, "windows": records}))
}

fn json_page(value: &Value) -> Answer {
    page("application/json", value.to_string())
}

fn page(kind: &'static str, text: String) -> Answer {
    let mut response = Response::new(Full::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn bad(reason: &str) -> Answer {
    plain(StatusCode::BAD_REQUEST, format!("{reason}\n"))
}

fn plain(status: StatusCode, text: String) -> Answer {
    let mut response = page("text/plain; charset=utf-8", text);
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
                let (method, uri) = (request.method().clone(), request.uri().clone());
                let response = answer(Arc::clone(&reporter), method, uri);
                async move { Ok::<_, Infallible>(response.await) }
            });
            let mut server = http1::Builder::new();
            server.timer(hyper_util::rt::TokioTimer::new()).header_read_timeout(HEADER_PATIENCE);
            server.max_buf_size(REQUEST_BYTES_MAX).max_headers(HEADERS_MAX);
            // A broken admin connection concerns only its client.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}
