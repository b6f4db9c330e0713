//! The pool's design with nothing in it: what a worker costs that only moves bytes.
//!
//!     rustc -O bench/blocking-relay.rs -o blocking-relay
//!     blocking-relay LISTEN SERVER WORKERS
//!
//! Each client has a thread that reads whole requests into one queue. A worker takes one, writes it to its server, reads the reply, writes
//! that to the client. `get` of one key and `set` only; no limits, no deadlines, no statistics; whatever goes wrong ends the process.

use std::{
    env,
    io::{BufRead, BufReader, Read, Result, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, mpsc},
    thread,
};

type Job = (Arc<TcpStream>, Vec<u8>);

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().collect();
    let [_, listen, server, workers] = &arguments[..] else { panic!("LISTEN SERVER WORKERS") };
    let (queue, taken) = mpsc::sync_channel::<Job>(10_000);
    let taken = Arc::new(Mutex::new(taken));
    for _ in 0..workers.parse::<usize>().expect("a number of workers") {
        let (server, taken) = (TcpStream::connect(server)?, Arc::clone(&taken));
        server.set_nodelay(true)?;
        thread::spawn(move || work(&server, &taken).expect("a server that answers"));
    }
    for client in TcpListener::bind(listen)?.incoming() {
        let (client, queue) = (Arc::new(client?), queue.clone());
        client.set_nodelay(true)?;
        thread::spawn(move || read_requests(&client, &queue));
    }
    Ok(())
}

fn read_requests(client: &Arc<TcpStream>, queue: &mpsc::SyncSender<Job>) -> Result<()> {
    let mut input = BufReader::new(&**client);
    loop {
        let mut request = Vec::new();
        if input.read_until(b'\n', &mut request)? == 0 {
            return Ok(());
        }
        if request.starts_with(b"set ") {
            read_block(&mut input, &mut request)?;
        }
        queue.send((Arc::clone(client), request)).expect("workers live as long as the process");
    }
}

fn work(server: &TcpStream, taken: &Mutex<mpsc::Receiver<Job>>) -> Result<()> {
    let mut replies = BufReader::new(server);
    loop {
        let job = taken.lock().expect("nobody panics under the lock").recv();
        let Ok((client, request)) = job else { return Ok(()) };
        (&mut &*server).write_all(&request)?;
        let mut reply = Vec::new();
        replies.read_until(b'\n', &mut reply)?;
        if reply.starts_with(b"VALUE ") {
            read_block(&mut replies, &mut reply)?;
            replies.read_until(b'\n', &mut reply)?;
        }
        // A client that has left does not matter to the others.
        let _ = (&mut &*client).write_all(&reply);
    }
}

/// Appends the data block whose length is the last word of the line.
fn read_block(input: &mut impl Read, message: &mut Vec<u8>) -> Result<()> {
    let line = std::str::from_utf8(message).expect("keys of text").trim_end();
    let length: u64 = line.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a length");
    input.take(length + 2).read_to_end(message)?;
    Ok(())
}
