//! How long it takes to find the server of a key, by placement and by hash.
//!
//! Each benchmark walks 1,000 distinct keys of 16 bytes over a pool of 10 servers; reported is the time per thousand,
//! that is, nanoseconds per key read as microseconds. What is left out: parsing the key, and everything done with the
//! answer. `replicas` asks for three servers instead of one. `at once` asks for the keys of a request with 9 or with 1,000
//! keys together, which the default placement hashes side by side.
//!
//! ```text
//! cargo bench -p weir-routing --bench lookup
//! ```

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;
use weir_routing::{KeyHash, Options, Placement, Router, Server};

const KEYS: u64 = 1000;
const SERVERS: u16 = 10;

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    targets = placements, at_once, hashes
}
criterion_main!(benches);

fn placements(criterion: &mut Criterion) {
    let keys = keys();
    for (name, replicas) in [("primary", 1), ("replicas", 3)] {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(KEYS));
        for placement in Placement::ALL {
            let router = router(Options { replicas, ..Options::new(placement) });
            group.bench_function(placement.name(), |bencher| {
                bencher.iter(|| {
                    let mut out = [0; 3];
                    for key in &keys {
                        black_box(router.replicas_of(black_box(key), &mut out));
                        black_box(out);
                    }
                });
            });
        }
        group.finish();
    }
}

fn at_once(criterion: &mut Criterion) {
    let keys = keys();
    let mut group = criterion.benchmark_group("at once");
    group.throughput(Throughput::Elements(KEYS));
    for (placement, size) in
        [Placement::default(), Placement::TwemproxyKetama].into_iter().flat_map(|it| [(it, 9), (it, 1000)])
    {
        let router = router(Options::new(placement));
        group.bench_function(format!("{placement} {size}"), |bencher| {
            bencher.iter(|| {
                for request in keys.chunks(size) {
                    let keys = request.iter().map(|key| black_box(key.as_slice()));
                    router.replicas_of_each(keys, &mut [0], |servers| {
                        black_box(servers);
                    });
                }
            });
        });
    }
    group.finish();
}

fn hashes(criterion: &mut Criterion) {
    let keys = keys();
    let mut group = criterion.benchmark_group("modulo by hash");
    group.throughput(Throughput::Elements(KEYS));
    for hash in KeyHash::ALL {
        let router = router(Options { hash: Some(hash), ..Options::new(Placement::Modulo) });
        group.bench_function(hash.name(), |bencher| {
            bencher.iter(|| keys.iter().map(|key| router.primary(black_box(key))).sum::<usize>());
        });
    }
    group.finish();
}

fn keys() -> Vec<Vec<u8>> {
    (0..KEYS).map(|number| format!("user:{number:011}").into_bytes()).collect()
}

fn router(options: Options) -> Router {
    let servers = (0..SERVERS).map(|number| Server::new(format!("10.0.0.{number}"), 11211)).collect();
    Router::with_options(servers, options).expect("ten servers make a pool for every placement")
}
