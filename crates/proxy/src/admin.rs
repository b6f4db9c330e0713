//! The admin port: `GET /metrics` for Prometheus, `GET /snapshot` as JSON. Formats: `docs/formats.md`.

use crate::{
    Config,
    clock::Clock,
    event_loop::{LoopHandle, Message},
    metrics, snapshot,
};
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::CONTENT_TYPE,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use std::{convert::Infallible, io, net::TcpListener, sync::Arc, sync::mpsc, time::Duration};
use weir_dataplane::Report;

/// How long a loop may take to tell what it measured. Loops answer between two turns, within milliseconds.
const REPORT_PATIENCE: Duration = Duration::from_secs(2);

/// Admin connections that are served at once; more wait in the kernel.
const CONNECTIONS_MAX: usize = 64;

/// How long an admin client may take to send its request, and then each next one.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Admin {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    loops: Vec<LoopHandle>,
}

impl Admin {
    pub(crate) fn new(config: Config, clock: Clock, loops: Vec<LoopHandle>) -> Self {
        Self { config, clock, loops }
    }

    /// The sum of what all loops measured.
    fn report(&self) -> io::Result<Report> {
        let mut sum: Option<Report> = None;
        for handle in &self.loops {
            let (sender, receiver) = mpsc::channel();
            handle.send(Message::Report(sender))?;
            let report = receiver.recv_timeout(REPORT_PATIENCE).map_err(io::Error::other)?;
            match &mut sum {
                Some(sum) => sum.merge(&report),
                None => sum = Some(report),
            }
        }
        sum.ok_or_else(|| io::Error::other("there is no event loop"))
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        let write: fn(&Admin, &Report) -> String = match (method, path) {
            (&Method::GET, "/metrics") => metrics::write,
            (&Method::GET, "/snapshot") => snapshot::write,
            (&Method::GET, _) => {
                return plain(StatusCode::NOT_FOUND, "there are /metrics and /snapshot here\n".into());
            }
            _ => return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n".into()),
        };
        match self.report() {
            Ok(report) => {
                let kind = if path == "/metrics" { "text/plain; version=0.0.4" } else { "application/json" };
                let mut response = Response::new(Full::from(write(self, &report)));
                response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
                response
            }
            Err(error) => {
                plain(StatusCode::SERVICE_UNAVAILABLE, format!("an event loop does not answer: {error}\n"))
            }
        }
    }
}

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}

/// Answers until the process ends.
pub(crate) fn serve(listener: TcpListener, admin: Admin) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(accept_all(listener, Arc::new(admin)))
}

async fn accept_all(listener: TcpListener, admin: Arc<Admin>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let admin = Arc::clone(&admin);
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let response = admin.answer(request.method(), request.uri().path());
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
