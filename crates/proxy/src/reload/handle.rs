//! What other threads ask of the thread that reloads and resolves; none of them waits for it.
//!
//! [`ReloadHandle`] is asked for a reload, and says what is in force. [`ResolverHandle`] is asked to look a name up, and says how many
//! were. Both put what is asked into one bounded channel.

use crate::{
    Config,
    config::{groups::Groups, settings::Settings},
    connections::names,
    process::clock,
    reload::resolver::{LookedUp, NameCounts},
};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
    mpsc::{Receiver, SyncSender, sync_channel},
};
use tokio::sync::oneshot;
use weir_routing::{Endpoint, Table};

/// Questions that may wait. More names than that are only looked up with the period.
const QUESTIONS_MAX: usize = 256;

/// What came of a reload: what it changed, or why it was refused.
pub(crate) type Reloaded = Result<String, String>;

/// What may be asked.
pub(super) enum Ask {
    /// Read the configuration again, and say what came of it.
    Reload(oneshot::Sender<Reloaded>),
    /// Look this name up.
    LookUp(Endpoint),
    /// A name was looked up.
    LookedUp(LookedUp),
    /// Something was left in the handle.
    Wake,
}

/// Asks for reloads.
#[derive(Clone)]
pub(crate) struct ReloadHandle {
    asks: SyncSender<Ask>,
    is_wanted: Arc<AtomicBool>,
    in_force: Arc<Mutex<InForce>>,
}

/// Asks for addresses.
#[derive(Clone)]
pub(crate) struct ResolverHandle {
    asks: SyncSender<Ask>,
    counts: Arc<NameCounts>,
}

/// What a proxy goes by at this moment.
#[derive(Clone)]
pub(crate) struct InForce {
    generation: u64,
    loaded_unix_ns: u64,
    table: Arc<Table>,
    groups: Groups,
    settings: Settings,
    refused: u64,
    refused_last: bool,
}

/// Both handles for what goes by `config` at first, and where what is asked arrives.
pub(super) fn handles(
    config: &Config,
    counts: Arc<NameCounts>,
) -> (ReloadHandle, ResolverHandle, Receiver<Ask>) {
    let (asks, receiver) = sync_channel(QUESTIONS_MAX);
    let in_force = Arc::new(Mutex::new(InForce::first(config)));
    let reload = ReloadHandle { asks: asks.clone(), is_wanted: Arc::default(), in_force };
    (reload, ResolverHandle { asks, counts }, receiver)
}

impl ReloadHandle {
    /// Where a signal says so. It is answered by a notice.
    pub(crate) fn reload(&self) {
        self.is_wanted.store(true, Ordering::Release);
        // Full: it is awake, and will see what it is wanted for.
        let _ = self.asks.try_send(Ask::Wake);
    }

    /// Reads the configuration again; what comes of it can be waited for. `None`: too much is asked at once.
    pub(crate) fn try_reload(&self) -> Option<oneshot::Receiver<Reloaded>> {
        let (sender, receiver) = oneshot::channel();
        self.asks.try_send(Ask::Reload(sender)).ok().map(|()| receiver)
    }

    pub(crate) fn in_force(&self) -> InForce {
        self.lock().clone()
    }

    /// Whether a signal has asked for a reload since this was asked last.
    pub(super) fn take_wanted(&self) -> bool {
        self.is_wanted.swap(false, Ordering::AcqRel)
    }

    /// A configuration was read and refused.
    pub(super) fn note_refused(&self) {
        let mut in_force = self.lock();
        in_force.refused += 1;
        in_force.refused_last = true;
    }

    /// Every loop goes by this from now on. Returns its generation.
    pub(super) fn note_in_force(&self, config: &Config) -> u64 {
        let mut in_force = self.lock();
        let (generation, refused) = (in_force.generation + 1, in_force.refused);
        *in_force = InForce { generation, refused, ..InForce::first(config) };
        generation
    }

    fn lock(&self) -> MutexGuard<'_, InForce> {
        // Whatever is changed under the lock is whole at every step that could panic.
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolverHandle {
    /// A connection to this name is made anew; it may have other addresses now.
    pub(crate) fn look_up(&self, endpoint: &Endpoint) {
        if names::is_name(endpoint) && self.asks.try_send(Ask::LookUp(endpoint.clone())).is_err() {
            self.counts.note_refused();
        }
    }

    /// A name was looked up. Waits until that can be said.
    pub(super) fn hand_over(&self, looked_up: LookedUp) {
        // The proxy may have ended.
        let _ = self.asks.send(Ask::LookedUp(looked_up));
    }

    pub(crate) fn counts(&self) -> &NameCounts {
        &self.counts
    }
}

impl InForce {
    fn first(config: &Config) -> Self {
        Self {
            generation: 1,
            loaded_unix_ns: clock::unix_ns(),
            table: Arc::clone(&config.table),
            groups: config.groups().clone(),
            settings: config.settings.clone(),
            refused: 0,
            refused_last: false,
        }
    }

    /// How many configurations have been, the first included.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn loaded_unix_ns(&self) -> u64 {
        self.loaded_unix_ns
    }

    /// The tables of all groups side by side.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Which clients are served together.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Where the keys of this group go.
    pub(crate) fn table_of(&self, group: usize) -> &Table {
        self.groups.all()[group].table()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How many configurations were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether the one that was read last was.
    pub(crate) fn refused_last(&self) -> bool {
        self.refused_last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::Layer;
    use std::time::Duration;
    use weir_routing::{Placement, Router, Server};

    fn config(timeout: &str) -> Config {
        let router = Router::new(vec![Server::new("127.0.0.1", 1)], Placement::Modulo, 1).expect("a pool");
        Config::new(router.into(), &Layer::of(&[("timeout", timeout)])).expect("valid")
    }

    #[test]
    fn what_is_in_force_counts_what_was_taken_and_what_was_refused() {
        let first = config("1s");
        let (reload, _, _asks) = handles(&first, Arc::default());
        reload.note_refused();
        let in_force = reload.in_force();
        assert_eq!((in_force.generation(), in_force.refused(), in_force.refused_last()), (1, 1, true));
        assert_eq!(reload.note_in_force(&config("2s")), 2);
        let in_force = reload.in_force();
        assert_eq!((in_force.generation(), in_force.refused(), in_force.refused_last()), (2, 1, false));
        assert_eq!(in_force.settings().timeout, Duration::from_secs(2));
    }

    #[test]
    fn a_name_that_cannot_be_asked_for_is_counted_and_an_address_is_not_asked_for() {
        let (_, resolver, asks) = handles(&config("1s"), Arc::default());
        (0..QUESTIONS_MAX + 2)
            .for_each(|_| resolver.look_up(&Endpoint::Tcp { host: "a.test".into(), port: 1 }));
        resolver.look_up(&Endpoint::Tcp { host: "127.0.0.1".into(), port: 1 });
        assert_eq!(asks.try_iter().count(), QUESTIONS_MAX);
        assert_eq!(resolver.counts().refused(), 2);
    }

    #[test]
    fn a_signal_is_not_lost_where_too_much_is_asked() {
        let (reload, _, _asks) = handles(&config("1s"), Arc::default());
        let waiting: Vec<_> = (0..QUESTIONS_MAX).map(|_| reload.try_reload()).collect();
        assert!(waiting.iter().all(Option::is_some) && reload.try_reload().is_none());
        reload.reload();
        assert!(reload.take_wanted() && !reload.take_wanted());
    }
}
