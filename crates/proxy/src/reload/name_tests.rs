//! Names of servers that change, with a resolver that says what the test wants: loop, resolver and sockets are the real ones.

use crate::{
    Config, Layer, Notice, Resolve,
    connections::{
        client_limit::{Admitted, ClientLimit},
        descriptors::Descriptors,
        names::{AddressBook, LOOK_UPS_MAX},
        sockets::Stream,
    },
    engine::{
        self,
        event::server_links::AddressBookHandle,
        making::{Making, Started},
    },
    mailbox::{LoopHandle, Message},
    notices::{notice::Tell, showing::Notices},
    process::{
        clock::Clock,
        service_manager::ServiceManager,
        threads::{LoopThread, Watch},
    },
    reload::{
        handle::{ReloadHandle, ResolverHandle},
        thread::ReloadThread,
    },
};
use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::sync_channel,
    },
    thread,
    time::Duration,
};
use weir_routing::{Placement, Router, Server, Table};

/// How long anything may take before a test says that it hangs.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// What a name stands for at this moment; nothing: it cannot be looked up.
#[derive(Default)]
struct Answers(Mutex<Vec<SocketAddr>>);

impl Answers {
    fn are(addresses: &[SocketAddr]) -> Arc<Self> {
        let answers = Arc::new(Self::default());
        answers.become_now(addresses);
        answers
    }

    fn become_now(&self, addresses: &[SocketAddr]) {
        *self.0.lock().expect("no test panicked with it") = addresses.to_vec();
    }
}

impl Resolve for Answers {
    fn resolve(&self, host: &str, _port: u16) -> io::Result<Vec<SocketAddr>> {
        let answers = self.0.lock().expect("no test panicked with it").clone();
        if host == "cache.test" && !answers.is_empty() {
            Ok(answers)
        } else {
            Err(io::Error::other("no such name"))
        }
    }
}

/// A server that answers every request with its own letter.
fn server(letter: char) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut writer = stream.try_clone().expect("descriptors are free");
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let reply = match line.split_once(' ') {
                        None => "VERSION 1\r\n".to_owned(),
                        Some(("stats", _)) => "END\r\n".to_owned(),
                        Some((_, key)) => format!("VALUE {key} 0 1\r\n{letter}\r\nEND\r\n"),
                    };
                    if writer.write_all(reply.as_bytes()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

/// An address at which nobody listens.
fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port is free")
}

fn table(servers: &[&str]) -> Table {
    let servers: Vec<Server> = servers.iter().map(|text| text.parse().expect("a server")).collect();
    Router::new(servers, Placement::Modulo, 1).expect("a possible pool").into()
}

fn config(resolver: Arc<Answers>) -> Config {
    config_of(resolver, &[])
}

fn config_of(resolver: Arc<Answers>, more: &[(&str, &str)]) -> Config {
    config_for(table(&["cache.test:1"]), resolver, more)
}

fn config_for(table: Table, resolver: Arc<Answers>, more: &[(&str, &str)]) -> Config {
    let said = [&[("listen", "127.0.0.1:0")], more].concat();
    let mut config = Config::new(table, &Layer::of(&said)).expect("valid");
    config.settings.threads = 1;
    config.settings.timeout = WAIT_MAX;
    config.settings.resolve_every = Duration::from_millis(10);
    config.resolver = resolver;
    config
}

fn pool_config(resolver: Arc<Answers>) -> Config {
    config_of(resolver, &[("engine", "pool"), ("workers", "3"), ("queue", "10")])
}

fn split_config(resolver: Arc<Answers>) -> Config {
    config_of(resolver, &[("engine", "split"), ("readers", "2"), ("queue", "10")])
}

/// An engine with the thread that reloads and resolves, and a client.
struct Proxy {
    /// The loop that has the client.
    door: LoopHandle,
    reload: ReloadHandle,
    resolver: ResolverHandle,
    threads: Vec<LoopThread>,
    client: BufReader<TcpStream>,
    /// What its operator has read of names.
    shown: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn start(config: &Config) -> Self {
        let clock = Clock::start();
        let shown = Arc::<Mutex<Vec<String>>>::default();
        let said = Arc::clone(&shown);
        let tell = move |notice: Notice| {
            let line = match notice {
                Notice::NameUnknown(error) => format!("unknown: {error}"),
                Notice::NameKnown(server) => format!("known: {server}"),
                _ => return,
            };
            said.lock().expect("no test panicked with it").push(line);
        };
        let tell: Tell = Arc::new(tell);
        let descriptors = Descriptors::start(config, Arc::clone(&tell)).expect("descriptors suffice");
        let manager = ServiceManager::default();
        let thread = ReloadThread::new(config, clock, Arc::clone(&descriptors), tell, manager);
        let (reload, resolver) = (thread.reload_handle(), thread.resolver_handle());
        let (questions, _) = sync_channel(1);
        let (windows, _parts, _) = crate::records::windows::Hub::new(2);
        let addresses = AddressBookHandle::new(thread.book(), resolver.clone(), descriptors, config.tcp())
            .with_outbounds(Arc::clone(config.outbounds()));
        let (watch, notices) = (Watch::default(), Notices::new(clock));
        let making = Making::new(config, clock, &watch, addresses, notices, questions, windows);
        let Started { doors, threads, .. } = engine::start(&making).expect("descriptors are free");
        let door = doors[0].clone();
        std::thread::spawn(move || thread.run(&[doors]));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        client.set_read_timeout(Some(WAIT_MAX)).expect("a time above nothing");
        let (accepted, _) = listener.accept().expect("a client has connected");
        accepted.set_nonblocking(true).expect("a socket");
        let stream = Stream::Tcp(mio::net::TcpStream::from_std(accepted));
        let place = ClientLimit::new(1).enter().expect("one is free");
        door.send(Message::Accept(Admitted::new(stream, place))).expect("the loop runs");
        let client = BufReader::new(client);
        Self { door, reload, resolver, threads, client, shown }
    }

    /// Which server answers; anything but an answer fails.
    fn ask(&mut self) -> String {
        self.client.get_mut().write_all(b"get k\r\n").expect("the loop serves");
        self.answer()
    }

    /// The first line with which a get of this key is answered.
    fn first_line(&mut self, key: &str) -> String {
        self.client.get_mut().write_all(format!("get {key}\r\n").as_bytes()).expect("the loop serves");
        let mut line = String::new();
        self.client.read_line(&mut line).expect("an answer within the time");
        line.trim_end().to_owned()
    }

    fn shown(&self) -> Vec<String> {
        self.shown.lock().expect("no test panicked with it").clone()
    }

    fn answer(&mut self) -> String {
        self.answer_of(Vec::new())
    }

    fn answer_after_its_first_line(&mut self) -> String {
        self.answer_of(vec![String::new()])
    }

    fn answer_of(&mut self, mut lines: Vec<String>) -> String {
        while lines.last().is_none_or(|line| line != "END\r\n") {
            let mut line = String::new();
            self.client.read_line(&mut line).expect("an answer within the time");
            assert!(!line.starts_with("SERVER_ERROR") && !line.is_empty(), "{line:?} after {lines:?}");
            lines.push(line);
        }
        lines[1].trim_end().to_owned()
    }

    /// Asks until that server answers; the other may until then.
    fn ask_until(&mut self, wanted: &str, meanwhile: &str) {
        let began = Clock::start();
        loop {
            let found = self.ask();
            if found == wanted {
                return;
            }
            assert_eq!(found, meanwhile);
            assert!(began.now().as_nanos() < 30_000_000_000, "still {found}, not {wanted}");
            thread::yield_now();
        }
    }

    fn reload(&self) -> Result<String, String> {
        let answer = self.reload.try_reload().expect("nothing else is asked");
        answer.blocking_recv().expect("the thread runs")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let ended = self.door.send(Message::Drain).and_then(|()| {
            self.client.get_ref().shutdown(std::net::Shutdown::Both)?;
            self.threads.drain(..).try_for_each(|thread| thread.join().unwrap_or(Ok(())))
        });
        if !thread::panicking() {
            ended.expect("the loop ends in order");
        }
    }
}

#[test]
fn a_server_whose_name_has_another_address_is_reconnected() {
    moves(config);
}

#[test]
fn every_worker_reconnects_a_server_whose_name_has_another_address() {
    moves(pool_config);
}

#[test]
fn every_reader_reconnects_a_server_whose_name_has_another_address() {
    moves(split_config);
}

fn moves(config: impl Fn(Arc<Answers>) -> Config) {
    let (old, new) = (server('A'), server('B'));
    let answers = Answers::are(&[old]);
    let mut proxy = Proxy::start(&config(Arc::clone(&answers)));
    assert_eq!(proxy.ask(), "A");
    // An address more changes nothing; that the one in use is gone does.
    answers.become_now(&[new, old]);
    while proxy.resolver.counts().changed() == 0 {
        assert_eq!(proxy.ask(), "A");
    }
    assert_eq!(proxy.ask(), "A");
    answers.become_now(&[new]);
    proxy.ask_until("B", "A");
    assert_eq!(proxy.ask(), "B");
}

/// Some name servers give another address in every answer. Each new connection asked for the name, and its answer ended the connection: they
/// were made as fast as names are looked up.
#[test]
fn a_name_with_another_address_in_every_answer_is_not_connected_to_without_end() {
    struct Turning([SocketAddr; 2], AtomicUsize);
    impl Resolve for Turning {
        fn resolve(&self, _host: &str, _port: u16) -> io::Result<Vec<SocketAddr>> {
            Ok(vec![self.0[self.1.fetch_add(1, Ordering::Relaxed) % 2]])
        }
    }
    let turning = Arc::new(Turning([server('A'), server('B')], AtomicUsize::new(0)));
    let mut config = config(Answers::are(&[]));
    config.settings.resolve_every = 100 * WAIT_MAX;
    config.resolver = Arc::<Turning>::clone(&turning);
    let mut proxy = Proxy::start(&config);
    assert_eq!(proxy.ask(), "A");
    proxy.resolver.look_up(&config.table.servers()[0].endpoint);
    proxy.ask_until("B", "A");
    for _ in 0..300 {
        assert_eq!(proxy.ask(), "B");
    }
    assert_eq!(turning.1.load(Ordering::Relaxed), 2);
}

#[test]
fn a_name_that_cannot_be_looked_up_keeps_its_address() {
    let answers = Answers::are(&[server('A')]);
    let mut proxy = Proxy::start(&config(Arc::clone(&answers)));
    answers.become_now(&[]);
    while proxy.resolver.counts().failed() < 3 {
        assert_eq!(proxy.ask(), "A");
    }
}

#[test]
fn addresses_of_one_name_are_tried_in_turn() {
    let answers = Answers::are(&[nobody(), nobody(), server('A')]);
    let mut proxy = Proxy::start(&config(answers));
    // No request fails because of those that refuse.
    assert_eq!(proxy.ask(), "A");
}

#[test]
fn a_server_whose_name_is_unknown_at_the_start_is_down_until_it_is_known() {
    starts_without_its_name(config);
}

#[test]
fn workers_find_a_server_whose_name_was_unknown_at_the_start() {
    starts_without_its_name(pool_config);
}

#[test]
fn readers_find_a_server_whose_name_was_unknown_at_the_start() {
    starts_without_its_name(split_config);
}

fn starts_without_its_name(config: impl Fn(Arc<Answers>) -> Config) {
    let answers = Answers::are(&[]);
    let mut proxy = Proxy::start(&config(Arc::clone(&answers)));
    let unknown =
        "unknown: server cache.test:1 cannot be resolved: no such name; check the name, or give its address";
    assert_eq!(proxy.shown(), [unknown]);
    while proxy.resolver.counts().failed() < 3 {
        let line = proxy.first_line("k");
        assert!(
            ["SERVER_ERROR connect cache.test:1", "SERVER_ERROR down cache.test:1"].contains(&line.as_str()),
            "{line}"
        );
    }
    answers.become_now(&[server('A')]);
    let began = Clock::start();
    loop {
        let found = proxy.first_line("k");
        if found.starts_with("VALUE ") {
            break;
        }
        assert!(found.starts_with("SERVER_ERROR "), "{found}");
        assert!(began.now().as_nanos() < 30_000_000_000, "still {found}");
        thread::yield_now();
    }
    assert_eq!(proxy.answer_after_its_first_line(), "A");
    assert_eq!(proxy.shown(), [unknown, "known: cache.test:1"], "each is shown once");
}

/// Where keys go is decided by names, not by which of them have addresses.
#[test]
fn keys_keep_their_servers_while_the_name_of_one_is_unknown() {
    let known = server('A').to_string();
    let table = table(&[&known, "cache.test:1"]);
    let config = config_for(table.clone(), Answers::are(&[]), &[]);
    let keys: Vec<String> = (0..16).map(|number| format!("key{number}")).collect();
    let away = |key: &String| table.pools()[0].router().primary(key.as_bytes()) == 1;
    assert!(keys.iter().any(away) && !keys.iter().all(away));
    let mut proxy = Proxy::start(&config);
    for key in &keys {
        let answer = proxy.first_line(key);
        if away(key) {
            assert!(answer.starts_with("SERVER_ERROR ") && answer.ends_with(" cache.test:1"), "{answer}");
        } else {
            assert_eq!(answer, format!("VALUE {key} 0 1"));
            assert_eq!(proxy.answer_after_its_first_line(), "A");
        }
    }
}

#[test]
fn a_reload_with_a_name_that_nobody_knows_is_taken_and_that_server_is_down() {
    let answers = Answers::are(&[server('A')]);
    let mut config = config(Arc::clone(&answers));
    config.reread = Arc::new(move || {
        let servers = table(&["cache.test:1", "unknown.test:1"]);
        Ok(config_for(servers, Arc::clone(&answers), &[]))
    });
    let proxy = Proxy::start(&config);
    let summary = proxy.reload().expect("a name may become known later");
    let unknown =
        "server unknown.test:1 cannot be resolved: no such name; check the name, or give its address";
    assert_eq!(summary, format!("generation 2: 2 servers, 1 of them new, 0 removed; {unknown}"));
    assert_eq!((proxy.reload.in_force().generation(), proxy.reload.in_force().refused()), (2, 0));
    assert_eq!(proxy.shown(), [format!("unknown: {unknown}")]);
}

/// For names of `dead.test` no name server answers, as long as it says so: whoever asks waits.
#[derive(Default)]
struct Zones {
    is_dead: Mutex<bool>,
    alive: Condvar,
    waiting: AtomicUsize,
    /// What all other names stand for.
    others: Answers,
}

impl Zones {
    fn become_dead(&self, is_dead: bool) {
        *self.is_dead.lock().expect("no test panicked with it") = is_dead;
        self.alive.notify_all();
    }
}

impl Resolve for Zones {
    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if !host.ends_with(".dead.test") {
            return self.others.resolve(host, port);
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let guard = self.is_dead.lock().expect("no test panicked with it");
        drop(self.alive.wait_while(guard, |is_dead| *is_dead).expect("no test panicked with it"));
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        Err(io::Error::other("no name server answers"))
    }
}

/// One name that took its time was all that was looked up at the start: the servers of all others were down.
#[test]
fn names_that_take_long_do_not_hold_up_the_start_and_the_others_are_found() {
    let zones = Arc::new(Zones::default());
    zones.others.become_now(&[nobody()]);
    zones.become_dead(true);
    let servers = ["a.dead.test:1", "cache.test:1", "127.0.0.1:1", "b.dead.test:1"]
        .map(|text| text.parse::<Server>().expect("a server"));
    let resolver: Arc<dyn Resolve> = Arc::<Zones>::clone(&zones);
    let wait_max = Some(Duration::from_secs(1));
    let (book, unresolved) = AddressBook::of(&servers, &AddressBook::default(), &resolver, wait_max);
    zones.become_dead(false);
    let said: Vec<_> = unresolved.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    for (line, server) in said.iter().zip(["a.dead.test:1", "b.dead.test:1"]) {
        assert!(line.starts_with(&format!("server {server} cannot be resolved: no answer within")), "{line}");
    }
    assert!([1, 2].iter().all(|&place: &usize| book.addresses(&servers[place].endpoint).len() == 1));
    assert_eq!(book.names().count(), 3, "those without an address are looked up again");
}

/// Names were looked up one after the other. Where a zone had no name server left, each of its names took seconds, and a server of another
/// zone that had moved was not found meanwhile.
#[test]
fn names_for_which_no_name_server_answers_hold_up_no_others() {
    let (old, new) = (server('A'), server('B'));
    let zones = Arc::new(Zones::default());
    zones.others.become_now(&[old]);
    let mut servers = vec!["cache.test:1".to_owned()];
    servers.extend((0..2 * LOOK_UPS_MAX).map(|number| format!("s{number}.dead.test:1")));
    let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
    let mut config = config_for(table(&servers), Answers::are(&[]), &[]);
    config.resolver = Arc::<Zones>::clone(&zones);
    // They were not found the last time.
    let mut proxy = Proxy::start(&config);
    let router = config.table.pools()[0].router();
    let key = (0..).map(|number| format!("k{number}")).find(|key| router.primary(key.as_bytes()) == 0);
    let key = key.expect("some key is its");
    zones.become_dead(true);
    let began = Clock::start();
    let waits = |what: &str| {
        assert!(began.now().as_nanos() < WAIT_MAX.as_nanos() as u64, "{what}");
        thread::yield_now();
    };
    while zones.waiting.load(Ordering::SeqCst) < LOOK_UPS_MAX / 2 {
        waits("they are looked up again");
    }
    zones.others.become_now(&[new]);
    loop {
        let line = proxy.first_line(&key);
        if line.starts_with("VALUE ") && proxy.answer_after_its_first_line() == "B" {
            break;
        }
        waits("the other one is found where it is now");
    }
    assert_eq!(zones.waiting.load(Ordering::SeqCst), LOOK_UPS_MAX / 2, "they have half of the threads");
    zones.become_dead(false);
}

#[test]
fn a_pool_does_not_change_between_one_replica_and_several() {
    keeps_its_replicas("pool", pool_config);
}

#[test]
fn a_split_does_not_change_between_one_replica_and_several() {
    keeps_its_replicas("split", split_config);
}

fn keeps_its_replicas(engine: &str, config: impl Fn(Arc<Answers>) -> Config) {
    let answers = Answers::are(&[server('A')]);
    let mut config = config(Arc::clone(&answers));
    let again = config.clone();
    config.reread = Arc::new(move || {
        let mut config = again.clone();
        let servers = ["127.0.0.1:1", "127.0.0.1:2"].map(|text| text.parse().expect("a server")).to_vec();
        config.table = Arc::new(Router::new(servers, Placement::Modulo, 2).expect("a possible pool").into());
        Ok(config)
    });
    let mut proxy = Proxy::start(&config);
    let reason = proxy.reload().expect_err("writes in service have no order");
    let expected = format!("engine {engine} cannot change between one replica and several");
    assert!(reason.starts_with(&expected), "{reason}");
    assert_eq!((proxy.reload.in_force().generation(), proxy.reload.in_force().refused()), (1, 1));
    assert_eq!(proxy.ask(), "A");
}

#[test]
fn a_reload_while_names_cannot_be_looked_up_keeps_the_servers_that_it_knows() {
    let answers = Answers::are(&[server('A')]);
    let mut config = config(Arc::clone(&answers));
    let again = config.clone();
    config.reread = Arc::new(move || Ok(again.clone()));
    let mut proxy = Proxy::start(&config);
    answers.become_now(&[]);
    assert_eq!(
        proxy.reload().expect("all names are known"),
        "generation 2: 1 servers, 0 of them new, 0 removed"
    );
    assert_eq!(proxy.ask(), "A");
}
