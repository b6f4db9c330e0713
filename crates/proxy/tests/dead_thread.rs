//! A proxy does not go on without one of its threads. A process of its own: what is tested ends by a signal.

use signal_hook::{consts::SIGHUP, low_level::raise};
use std::{
    sync::{Arc, mpsc::channel},
    thread,
    time::Duration,
};
use weir_proxy::{Config, Layer, Notice, RunError, run};
use weir_routing::{Placement, Router, Server};

/// How long anything may take.
const WAIT_MAX: Duration = Duration::from_secs(60);

#[test]
fn a_proxy_whose_reader_of_configurations_has_died_ends_and_says_so() {
    // It went on, and every later SIGHUP did nothing.
    let router = Router::new(vec![Server::new("127.0.0.1", 1)], Placement::Modulo, 1).expect("a pool");
    let said = Layer::default().with("listen", "127.0.0.1:0").expect("an address");
    let mut config = Config::new(router.into(), &said).expect("valid");
    config.reread = Arc::new(|| panic!("out of luck"));
    let (ready, notices) = channel();
    let (ended, end) = channel();
    thread::spawn(move || {
        let ran = run(&config, move |notice, _| {
            if matches!(notice, Notice::Ready(_)) {
                ready.send(()).expect("the test hears");
            }
        });
        ended.send(ran).expect("the test hears");
    });
    notices.recv_timeout(WAIT_MAX).expect("it serves");
    raise(SIGHUP).expect("a signal that there is");
    match end.recv_timeout(WAIT_MAX).expect("it ends") {
        Err(RunError::Thread { name, why }) => {
            assert_eq!(name, "weir-reloader");
            assert_eq!(why, "it panicked (out of luck); please report this");
        }
        other => panic!("it ended otherwise: {other:?}"),
    }
}
