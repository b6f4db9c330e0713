//! What a request costs the generator, without the kernel. Shown, not judged:
//!
//! ```text
//! cargo test --release -p weir-load cost_of_a_request -- --ignored --nocapture
//! ```

use super::cache::Cache;
use super::*;
use crate::config::{Config, Settings};
use crate::workload::mix::{MixSource, Prefill};

#[test]
#[ignore = "shows figures that depend on the machine"]
#[expect(clippy::disallowed_methods, reason = "it measures the time that code takes")]
fn cost_of_a_request() {
    for (name, change) in CONTENTS {
        let mut settings = Settings { depth: 64, keys: 10_000, ..Settings::example() };
        change(&mut settings);
        let config = Config::check(settings).expect("the settings are valid");
        let workload = Arc::new(Workload::new(&config, 7, None));
        let mut connection = Connection::new(0, "here:1".into(), workload);
        let (mut recorder, mut cache, mut requests) = (Recorder::new(false), Cache::default(), Vec::new());
        connection.set_source(Source::Prefill(Prefill::new(&config, 0)), Pace::eager(), 64);
        let (mut spent, mut counted_from) = (Duration::ZERO, 0);
        for round in 0..3_000 {
            if round == 1_000 {
                connection.set_source(Source::Mix(Box::new(MixSource::new(&config, 0))), Pace::eager(), 64);
                (spent, counted_from) = (Duration::ZERO, recorder.total().requests);
            }
            requests.clear();
            let began = std::time::Instant::now();
            connection.poll_requests(Instant::ZERO, &mut requests, &mut recorder);
            connection.handle_sent(requests.len(), Instant::ZERO);
            spent += began.elapsed();
            let replies = cache.answer(&requests).concat();
            let began = std::time::Instant::now();
            let taken = connection.handle_bytes(&replies, Instant::from_nanos(1), &mut recorder);
            spent += began.elapsed();
            assert_eq!(taken, Ok(replies.len()));
        }
        let answered = recorder.total().requests - counted_from;
        println!("{name:<16}{:>6} ns per request", spent.as_nanos() / u128::from(answered));
    }
}

type Change = fn(&mut Settings);

const CONTENTS: [(&str, Change); 5] = [
    ("default", |_| {}),
    ("one writer", |settings| settings.content.one_writer = true),
    ("zipf 1", |settings| settings.content.popularity = "zipf:1".parse().expect("a popularity")),
    ("multi-get of 10", |settings| settings.content.multiget = Amount::Fixed(10)),
    ("facebook-etc", |settings| {
        let preset = crate::content::Preset::named("facebook-etc").expect("the preset exists");
        settings.content = preset.content().expect("the preset is complete");
    }),
];
