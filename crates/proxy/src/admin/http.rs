//! The admin port: numbers, health, where keys are, what is in force, and `POST /reload`. Formats: `docs/reference/formats.md`; who may reach it:
//! `docs/operate/run.md`.
//!
//! One thread takes connections and answers what it knows itself, health above all. What must be asked of the event loops, or is long to
//! write, is made on threads beside it. A connection brings one question. `places` says who may stay, `callers` who may ask.

use crate::{
    admin::{
        callers, hot_keys,
        latest::Latest,
        metrics,
        places::{self, About, Place, either},
        query,
        reporter::{Reporter, Sums},
        snapshot,
    },
    config::groups::Group,
    connections::descriptors::reserve::{Reserve, is_out_of_descriptors},
    records::windows::window,
};
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode, Uri,
    body::{Body as _, Bytes, Incoming},
    header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use socket2::SockRef;
use std::{
    collections::HashSet,
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{
    net::TcpStream,
    runtime::{Builder, Runtime},
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;
use weir_dataplane::Report;
use weir_routing::{Pool, REPLICAS_MAX, Table, fingerprint};

/// The longest request that is read, in bytes: a key of 250 bytes and the headers of any browser fit. Longer ones get status 431.
const REQUEST_BYTES_MAX: usize = 16 << 10;

/// Header lines that are read; more get status 431.
const HEADERS_MAX: usize = 64;

/// What the kernel may keep of an answer that is not taken (it doubles that); the rest stays here, where it is counted.
const SEND_BUFFER_BYTES: usize = 64 << 10;

/// Pause after a failure to accept: at once it would only fail again.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(10);

/// After this number of failures in a row for want of a descriptor, the client that was waited for longest gives way.
const FAILURES_MAX: u32 = 10;

/// Pages that are written at once; and answers about readiness, which wait for no page.
const WRITERS: usize = 2;

const PAGES: &str = "there are /metrics, /snapshot, /windows?since=INDEX, /hot, /where?key=KEY, /config, /healthz and /readyz here, and POST /reload\n";

type Answer = Response<Full<Bytes>>;

/// What all connections share.
struct Station {
    reporter: Arc<Reporter>,
    pages: Arc<Semaphore>,
    readiness: Arc<Semaphore>,
    /// What loops have reported last for an answer about readiness.
    latest: Arc<Latest<Sums<Report>>>,
}

impl Station {
    async fn answer(&self, place: &Place, request: Request<Incoming>) -> Answer {
        let (head, _) = request.into_parts();
        let hosts = &self.reporter.config.settings.admin_host;
        if let Err(reason) = callers::check(hosts, &head.method, head.uri.path(), &head.headers) {
            self.reporter.admin.note_stranger();
            return plain(StatusCode::FORBIDDEN, format!("{reason}\n"));
        }
        let is_probe = matches!(head.uri.path(), "/healthz" | "/ready" | "/readyz");
        if !is_probe && !self.reporter.config.admin_access().takes(callers::token(&head.headers)) {
            self.reporter.admin.note_stranger();
            return unauthorized();
        }
        let about = match (&head.method, head.uri.path()) {
            (&Method::GET, "/healthz") => return plain(StatusCode::OK, "ok\n".into()),
            (&Method::GET, "/reload") => {
                return plain(StatusCode::METHOD_NOT_ALLOWED, "POST reads the configuration again\n".into());
            }
            (&Method::GET, "/ready" | "/readyz") => About::Readiness,
            (&Method::GET, _) | (&Method::POST, "/reload") => About::Pages,
            _ => {
                let text = "only GET is answered here, and POST /reload\n";
                return plain(StatusCode::METHOD_NOT_ALLOWED, text.into());
            }
        };
        if !place.begin(about) {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "too much is asked at once; try again\n".into());
        }
        if head.method == Method::POST {
            reload(&self.reporter).await
        } else {
            self.write(about, head.uri).await
        }
    }

    /// Writes a page beside the thread that takes connections: loops may be slow to tell, and two minutes of histograms are long.
    async fn write(&self, about: About, uri: Uri) -> Answer {
        let writers = match about {
            About::Readiness => &self.readiness,
            About::Pages => &self.pages,
        };
        let Ok(writer) = Arc::clone(writers).acquire_owned().await else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "the proxy is ending\n".into());
        };
        let (reporter, latest) = (Arc::clone(&self.reporter), Arc::clone(&self.latest));
        let written = tokio::task::spawn_blocking(move || {
            let page = match about {
                About::Readiness => tell_readiness(&reporter, &latest),
                About::Pages => tell(&reporter, &uri),
            };
            drop(writer);
            page
        });
        written
            .await
            .unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR, "it could not be written\n".into()))
    }
}

/// Waits until the new configuration is in force.
async fn reload(reporter: &Reporter) -> Answer {
    let Some(answer) = reporter.reload.try_reload() else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "too much is asked at once; try again\n".into());
    };
    match answer.await {
        Ok(Ok(summary)) => plain(StatusCode::OK, format!("{summary}\n")),
        Ok(Err(reason)) => plain(StatusCode::UNPROCESSABLE_ENTITY, format!("{reason}\n")),
        Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "the proxy is ending\n".into()),
    }
}

fn tell(reporter: &Reporter, uri: &Uri) -> Answer {
    let write: fn(&Reporter, &Sums<Report>) -> Answer = match uri.path() {
        "/windows" => return windows_since(reporter, uri.query()),
        "/where" => return place(reporter, uri.query()),
        "/config" => return json_page(&snapshot::config(reporter)),
        "/hot" => return page_of(reporter.top_keys(), |top| json_page(&hot_keys::page(reporter, top))),
        "/metrics" => |reporter, report| page("text/plain; version=0.0.4", metrics::write(reporter, report)),
        "/snapshot" => |reporter, report| json_text(snapshot::write(reporter, report)),
        _ => return plain(StatusCode::NOT_FOUND, PAGES.into()),
    };
    page_of(reporter.report(), |report| write(reporter, report))
}

/// Any number of probes may ask, and loops have little time for that. What has come of a signal or a reload meanwhile counts at once.
fn tell_readiness(reporter: &Reporter, latest: &Latest<Sums<Report>>) -> Answer {
    let generation = || reporter.reload.in_force().generation();
    let heard = latest.ask(generation, || reporter.clock.now(), || reporter.report());
    page_of(heard, |report| ready(reporter, report))
}

/// What all loops have answered, as a page.
fn page_of<T>(heard: io::Result<T>, write: impl FnOnce(&T) -> Answer) -> Answer {
    match heard {
        Ok(heard) => write(&heard),
        Err(error) => {
            plain(StatusCode::SERVICE_UNAVAILABLE, format!("an event loop does not answer: {error}\n"))
        }
    }
}

/// Whether clients are to be sent here: every loop answers, a pool can serve, and the proxy is not about to stop. Besides, what it goes
/// by, and which servers are not read.
fn ready(reporter: &Reporter, report: &Sums<Report>) -> Answer {
    let in_force = reporter.reload.in_force();
    let (generation, loaded_unix_ns) = (in_force.generation(), in_force.loaded_unix_ns());
    let unread = report.servers.iter().filter_map(|it| it.unread.map(|why| (it.server.clone(), json!(why))));
    let down = pools_down(in_force.table(), report);
    let reason = if reporter.stopping.load(Ordering::SeqCst) {
        Some("the proxy is about to stop")
    } else if down.len() == in_force.table().pools().len() {
        Some("no pool has a server that is up")
    } else {
        None
    };
    let mut answer = json_page(&json!({
        "ready": reason.is_none(),
        "reason": reason,
        "generation": generation,
        "loaded_unix_ns": loaded_unix_ns,
        "pools_down": down,
        "servers_unread": unread.collect::<Map<_, _>>(),
    }));
    if reason.is_some() {
        *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    answer
}

/// The pools of which no server is up.
fn pools_down<'a>(table: &'a Table, report: &Report) -> Vec<&'a str> {
    let serving = report.servers.iter().filter(|it| it.is_serving).map(|it| it.server.as_str());
    let serving: HashSet<_> = serving.collect();
    let is_down = |pool: &&Pool| !table.servers_of(pool).any(|it| serving.contains(it.name.as_str()));
    table.pools().iter().filter(is_down).map(Pool::name).collect()
}

/// Which servers hold a key, the primary first.
fn place(reporter: &Reporter, query: Option<&str>) -> Answer {
    let (key, pool) = match query::each(query, ["key", "pool"]) {
        Ok([Some(key), pool]) if !key.is_empty() => (key, pool),
        Ok(_) => return bad("give a key: /where?key=KEY, with %XX for what is no letter or digit"),
        Err(reason) => return bad(&reason),
    };
    let pool = pool.map(|pool| String::from_utf8_lossy(&pool).into_owned());
    let in_force = reporter.reload.in_force();
    let Some(group) = in_force.groups().of_place(pool.as_deref()) else {
        let known = in_force.groups().all().iter().filter_map(Group::pool).map(|pool| &**pool);
        let known = known.collect::<Vec<_>>().join(", ");
        return bad(&match pool {
            None => format!("no keys go by routes here: give a pool, /where?key=KEY&pool=POOL: {known}"),
            Some(pool) => format!("no [[listen]] has pool {pool:?}; there are: {known}"),
        });
    };
    let table = in_force.table_of(group);
    let mut places = [0; REPLICAS_MAX];
    let count = table.replicas_of(&key, &mut places);
    let servers = places[..count].iter().map(|place| table.servers()[usize::from(*place)].name.as_str());
    let pool = table.pools()[table.pool_of(&key)].name();
    let servers = servers.collect::<Vec<_>>();
    let (text, hash) = (String::from_utf8_lossy(&key), fingerprint(&key));
    json_page(&json!({"key": text, "hash": hash, "pool": pool, "servers": servers}))
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
    let dropped = reporter.files.windows_dropped();
    let records: Vec<_> = windows.iter().map(|window| window::record(window, dropped)).collect();
    let next = windows.last().map_or(since, |window| window.index() + 1);
    json_page(&json!({"schema": "weir.windows/1", "next": next, "windows": records}))
}

fn json_page(value: &Value) -> Answer {
    json_text(value.to_string())
}

/// With a line ending, so that the prompt of a shell stands on a line of its own.
fn json_text(mut text: String) -> Answer {
    text.push('\n');
    page("application/json", text)
}

fn page(kind: &'static str, mut text: String) -> Answer {
    // What is counted is its length.
    text.shrink_to_fit();
    let mut response = Response::new(Full::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn unauthorized() -> Answer {
    let text = "show the token of --admin-token-file: Authorization: Bearer TOKEN\n";
    let mut answer = plain(StatusCode::UNAUTHORIZED, text.into());
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer
}

fn bad(reason: &str) -> Answer {
    plain(StatusCode::BAD_REQUEST, format!("{reason}\n"))
}

fn plain(status: StatusCode, text: String) -> Answer {
    let mut response = page("text/plain; charset=utf-8", text);
    *response.status_mut() = status;
    response
}

/// The admin port: it listens, and has all descriptors that it needs besides its connections.
pub(crate) struct AdminPort {
    runtime: Runtime,
    listener: tokio::net::TcpListener,
}

impl AdminPort {
    /// Listens, at `port` if that was handed over.
    pub(crate) fn bind(address: SocketAddr, port: Option<TcpListener>) -> io::Result<Self> {
        let listener = port.map_or_else(|| TcpListener::bind(address), Ok)?;
        listener.set_nonblocking(true)?;
        bound_kernel(&listener)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        drop(entered);
        Ok(Self { runtime, listener })
    }

    /// With the port that the kernel chose if it was to.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Answers until the process ends.
    pub(crate) fn serve(self, reporter: Reporter, spare: Reserve) -> io::Result<()> {
        self.runtime.block_on(accept_all(self.listener, Arc::new(reporter), Arc::new(spare)))
    }
}

/// What the kernel keeps for clients that do not read: connections inherit this from where they were accepted.
fn bound_kernel(listener: &TcpListener) -> io::Result<()> {
    let socket = SockRef::from(listener);
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.set_tcp_user_timeout(Some(places::TAKING_MAX))
}

async fn accept_all(
    listener: tokio::net::TcpListener,
    reporter: Arc<Reporter>,
    spare: Arc<Reserve>,
) -> io::Result<()> {
    let places = Arc::clone(&reporter.admin);
    let writers = || Arc::new(Semaphore::new(WRITERS));
    let (pages, readiness) = (writers(), writers());
    let station = Arc::new(Station { reporter, pages, readiness, latest: Arc::default() });
    let mut failures = 0u32;
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => {
                failures = 0;
                stream
            }
            // One that is held is free now.
            Err(error) if is_out_of_descriptors(&error) && spare.let_go() => continue,
            Err(error) => {
                failures = (failures + 1) % FAILURES_MAX;
                // Those who have their answers leave by themselves, at once. Where that helps nobody, one gives way.
                if is_out_of_descriptors(&error) && failures == 0 {
                    places.make_way();
                }
                tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
                spare.refill();
                continue;
            }
        };
        let (place, station, spare) = (places.enter(), Arc::clone(&station), Arc::clone(&spare));
        tokio::spawn(async move {
            serve_one(stream, place, station).await;
            // Its descriptor is held again before anything else can have it.
            spare.refill();
        });
        // However many come at once, each is looked at before it could have to give way.
        tokio::task::yield_now().await;
    }
}

/// Answers the one question of a connection.
async fn serve_one(stream: TcpStream, place: Place, station: Arc<Station>) {
    let (station, place) = (&*station, &place);
    let service = service_fn(|request: Request<Incoming>| async move {
        place.note_asked();
        let answer = station.answer(place, request).await;
        let bytes = answer.body().size_hint().exact().unwrap_or_default();
        place.note_answered(usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok::<_, Infallible>(answer)
    });
    let mut server = http1::Builder::new();
    server.keep_alive(false).max_buf_size(REQUEST_BYTES_MAX).max_headers(HEADERS_MAX);
    let terms = station.reporter.config.admin_access().terms();
    // A broken admin connection concerns only its client. A handshake has the time that a question has.
    let served = async move {
        match terms {
            None => server.serve_connection(TokioIo::new(stream), service).await.is_ok(),
            Some(terms) => match TlsAcceptor::from(terms).accept(stream).await {
                Ok(stream) => server.serve_connection(TokioIo::new(stream), service).await.is_ok(),
                Err(_) => false,
            },
        }
    };
    either(served, place.has_ended()).await;
}
