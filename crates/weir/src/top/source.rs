//! Asks a proxy's admin port for what is new.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::Duration;

use serde_json::Value;

use super::asking::AdminPort;

/// What was heard of the proxy.
pub(super) enum News {
    /// A second is over.
    Second(Box<Second>),
    /// It does not answer; the reason.
    Away(String),
}

/// One second of a proxy.
pub(super) struct Second {
    /// The admin port.
    pub(super) admin: String,
    /// `weir.window/1` of docs/reference/formats.md.
    pub(super) window: Value,
    /// What is in force: `/config`.
    pub(super) config: Value,
    /// The keys that are asked for most: `weir.hot/1`. Nothing where the proxy knows of none.
    pub(super) hot: Value,
    /// Requests per second of the seconds before, the oldest first.
    pub(super) history: Vec<u64>,
}

/// How often it is asked.
const EVERY: Duration = Duration::from_millis(250);

/// Seconds of history.
const HISTORY_MAX: usize = 240;

/// Begins to ask, on a thread that ends with the process or when nobody listens.
pub(super) fn begin(admin: AdminPort) -> io::Result<Receiver<News>> {
    // A terminal that takes nothing does not gather seconds.
    let (sender, news) = sync_channel(1);
    std::thread::Builder::new().name("weir-top".into()).spawn(move || ask(&admin, &sender))?;
    Ok(news)
}

fn ask(admin: &AdminPort, news: &SyncSender<News>) {
    let (mut next, mut history) = (None, Vec::new());
    let (_never, pause) = channel::<()>();
    loop {
        let answer = match ask_once(admin, next, &mut history) {
            Ok(None) => Ok(()),
            Ok(Some((second, after))) => {
                next = Some(after);
                news.send(News::Second(Box::new(second)))
            }
            Err(reason) => {
                // Another process may answer next, and count from the beginning.
                (next, history) = (None, Vec::new());
                news.send(News::Away(format!(
                    "no proxy answers at {}: {reason}; is --admin set there?",
                    admin.address()
                )))
            }
        };
        if answer.is_err() {
            return;
        }
        // Nobody ever sends: this is a pause.
        let _ = pause.recv_timeout(EVERY);
    }
}

/// The newest second, if it is newer than `next`, and what to ask for then.
fn ask_once(
    admin: &AdminPort,
    next: Option<u64>,
    history: &mut Vec<u64>,
) -> Result<Option<(Second, u64)>, String> {
    let since = next.unwrap_or(0);
    // One more than is new: where that is gone, the proxy was started anew and counts from 0.
    let mut page = admin.get(&format!("/windows?since={}", since.saturating_sub(1)))?;
    let after = page["next"].as_u64().ok_or("it answers, but not as a proxy of this version")?;
    let Some(Value::Array(mut windows)) = page.get_mut("windows").map(Value::take) else {
        return Err("it answers, but not as a proxy of this version".into());
    };
    if next.is_some() && windows.is_empty() {
        return Err("it was started anew".into());
    }
    windows.retain(|window| window["index"].as_u64().is_some_and(|index| index >= since));
    history.extend(windows.iter().map(|window| window["requests"].as_u64().unwrap_or(0)));
    history.drain(..history.len().saturating_sub(HISTORY_MAX));
    let Some(window) = windows.pop() else {
        return Ok(None);
    };
    let config = admin.get("/config")?;
    // A proxy of an earlier version has no such page.
    let hot = admin.get("/hot").unwrap_or_default();
    let second = Second { admin: admin.address().to_owned(), window, config, hot, history: history.clone() };
    Ok(Some((second, after)))
}
